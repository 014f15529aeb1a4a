package ownership

import (
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership/internal/rule"
)

// step is one call of Step.
type step struct {
	r   Rules
	u   Unit
	e   Event
	out []Action
}

// Step returns the unit after an event, and what the driver has to do, in this order. An
// event that the table does not list for the unit's state changes nothing. It is a pure
// function, safe for concurrent use, and does not change u or e.
func (r Rules) Step(u Unit, e Event) (Unit, []Action) {
	i := slices.IndexFunc(transitions, func(t transition) bool {
		return t.on == e.Kind && (t.in == nil || slices.Contains(t.in, u.State))
	})
	if i < 0 {
		return u, nil
	}
	s := &step{r: r, u: u, e: e}
	transitions[i].do(s)
	if saved(u, s.u) {
		return s.u, s.out
	}
	save := Action{Kind: Save}
	adopts := slices.ContainsFunc(s.out, func(a Action) bool { return a.Kind == Adopt })
	if adopts && !r.on(rule.AdoptSaves) || !adopts && !r.on(rule.OneBallot) {
		return s.u, append(s.out, save)
	}
	return s.u, append([]Action{save}, s.out...)
}

// saved reports whether the disk need not be written: it has all but Reasons and Ask.
func saved(was, is Unit) bool {
	return was.State == is.State && was.Then == is.Then && was.To == is.To &&
		was.Copy == is.Copy && was.N == is.N && was.Seq == is.Seq &&
		was.Lease().ID() == is.Lease().ID() && slices.Equal(was.Replicas, is.Replicas)
}

func (s *step) act(a Action) { s.out = append(s.out, a) }

func (s *step) report(text string) { s.act(Action{Kind: Report, Text: text}) }

// see handles a record from elsewhere.
func (s *step) see(rec Record) {
	switch s.r.Read(s.u.Lease(), rec, s.e.Near) {
	case Newer:
		s.accept(rec)
	case Unproven:
		if s.u.State == None || s.u.State == Claiming {
			s.accept(rec)
		}
	}
}

// accept makes the last lease of rec the unit's.
func (s *step) accept(rec Record) {
	from := s.u.State
	if s.u.Then != None && (from == Electing || from == Suspended || from == HandingOver) {
		from = s.u.Then
	}
	l := rec.Newest()
	s.u.Record, s.u.N, s.u.Ask = rec, 0, Ask{}
	s.u.Seq, s.u.Replicas = 0, l.Replicas
	switch {
	case l.Owner == s.u.Self:
		s.own(from)
	case l.Owner.ID == s.u.Self.ID:
		s.returned()
	case from == Deciding || from == Owned || from == Ceded:
		s.to(Ceded)
		s.u.Then, s.u.To, s.u.Reasons = None, l.Owner, 0
		s.act(Action{Kind: Pause})
		s.act(Action{Kind: Publish, Record: rec})
		s.cede()
	case from == Replica:
		s.to(Replica)
		s.u.Then = None
	default:
		s.to(None)
		s.u.Then = None
		s.act(Action{Kind: Route, Record: rec})
	}
}

// own begins to act on a lease of this peer.
func (s *step) own(from State) {
	l := s.u.Lease()
	needs := l.Kind == Handover || l.Kind == Takeover || l.Kind == Renewal
	if needs && s.u.Copy != Complete {
		s.to(Orphaned)
		s.u.Then = None
		return
	}
	switch {
	case l.Kind == Claim:
		s.to(Deciding)
	case from == Deciding && s.u.State == Suspended:
		s.to(Deciding)
	case s.u.State == Owned || s.u.State == Deciding:
		s.to(s.u.State)
	default:
		s.to(Owned)
	}
	s.u.Then, s.u.To, s.u.Copy = None, Member{}, Complete
	s.act(Action{Kind: Adopt})
	s.act(Action{Kind: Publish, Record: s.u.Record})
	if s.u.Reasons &^= Proposed; s.u.Reasons != 0 {
		s.suspend(s.u.Reasons)
		return
	}
	s.act(Action{Kind: Resume})
}

// returned handles a lease of this peer from before it lost its disk. For the witnesses the
// owner that the lease names is silent.
func (s *step) returned() {
	if !s.r.on(rule.OwnerStore) {
		s.u.Self.Store = s.u.Lease().Owner.Store
		s.u.Copy = Complete
		s.own(None)
		return
	}
	s.to(Orphaned)
}

func (s *step) to(st State) { s.u.State = st }

func (s *step) cede() {
	s.act(Action{Kind: CedeTo, To: []Member{s.u.To}, Record: s.u.Record})
	if !s.r.on(rule.CedeKeeps) {
		s.received()
	}
}

// Events of the owner.

func (s *step) wanted() {
	if s.u.Lease() != nil {
		s.act(Action{Kind: Route, Record: s.u.Record})
		return
	}
	s.to(Claiming)
	s.propose(s.next(Claim), true)
}

func (s *step) decided() {
	if s.e.Peer == s.u.Self {
		if s.u.State == Deciding {
			s.to(Owned)
		}
		return
	}
	s.u.Then = s.u.State
	s.to(HandingOver)
	s.u.To, s.u.Ask = s.e.Peer, Ask{Phase: Consenting}
	s.offer()
}

func (s *step) offer() {
	s.act(Action{Kind: Offer, To: []Member{s.u.To}, Record: s.u.Record})
}

// accepted handles the consent of the successor.
func (s *step) accepted() {
	l := s.e.Lease
	if s.u.Ask.Phase != Consenting || l == nil || l.Owner != s.u.To || l.Kind != Handover ||
		l.Prev != s.u.Lease().ID() || l.Epoch != s.u.Lease().Epoch+1 {
		return
	}
	if !s.r.on(rule.Flush) {
		s.propose(l, false)
		return
	}
	s.u.Ask = Ask{Phase: Flushing, Want: l}
	s.act(Action{Kind: Pause})
	s.act(Action{Kind: FlushTo, To: []Member{s.u.To}})
}

func (s *step) flushed() {
	if s.u.Ask.Phase == Flushing && s.e.Peer == s.u.To {
		s.propose(s.u.Ask.Want, false)
	}
}

// keep ends a handover that has not been proposed yet.
func (s *step) keep() {
	s.to(s.u.Then)
	s.u.Then, s.u.To, s.u.Ask = None, Member{}, Ask{}
	s.act(Action{Kind: Resume})
}

func (s *step) replicaReady() {
	if p := s.e.Peer.ID; !slices.Contains(s.u.Replicas, p) {
		s.count(append(slices.Clone(s.u.Replicas), p))
	}
}

func (s *step) replicaLost() {
	p := s.e.Peer.ID
	if slices.Contains(s.u.Replicas, p) {
		s.count(slices.DeleteFunc(slices.Clone(s.u.Replicas),
			func(x peer.ID) bool { return x == p }))
	}
	if s.u.State == HandingOver && p == s.u.To.ID && s.u.Ask.Phase < Preparing {
		s.keep()
	}
}

// count changes the replicas that the owner counts on. The heartbeats tell the witnesses.
func (s *step) count(replicas []peer.ID) {
	s.u.Replicas = replicas
	s.u.Seq++
}

func (s *step) received() {
	if s.r.on(rule.CedeKeeps) && s.e.Peer != s.u.To {
		return
	}
	s.to(None)
	s.u.To, s.u.Copy = Member{}, NoCopy
	s.act(Action{Kind: Drop})
}

// stateReceived handles what an earlier owner ceded, after it was merged with what is here.
func (s *step) stateReceived() {
	s.see(s.e.Record)
	switch {
	case s.u.State == Orphaned && s.u.Owns():
		s.u.Copy = Complete
		s.own(Orphaned)
	case s.u.Owns():
	default:
		s.act(Action{Kind: Inform, To: []Member{s.e.Peer}, Record: s.u.Record})
		return
	}
	s.act(Action{Kind: Confirm, To: []Member{s.e.Peer}})
}

// suspend stops work for a reason.
func (s *step) suspend(why Reasons) {
	switch s.u.State {
	case HandingOver:
		if s.u.Ask.Phase >= Preparing {
			return // nothing is fetched anyway
		}
		s.u.To, s.u.Ask = Member{}, Ask{}
		s.to(Suspended)
	case Deciding, Owned:
		s.u.Then = s.u.State
		s.to(Suspended)
	}
	s.u.Reasons |= why
	s.act(Action{Kind: Pause})
}

func (s *step) hindered() { s.suspend(s.e.Reasons & (DiskFull | Offline)) }

// resume takes reasons away, and works again if there are none left.
func (s *step) resume(why Reasons) {
	if s.u.Reasons &^= why; s.u.Reasons != 0 {
		return
	}
	s.to(s.u.Then)
	s.u.Then = None
	s.act(Action{Kind: Resume})
}

// voted handles a notice that a witness has signed another peer's lease. The others may still
// let this peer act. It proposes itself: then it learns whether the other lease has a
// majority, and the witness counts again.
func (s *step) voted() {
	if s.u.Ask.Phase != Idle || s.u.State != Deciding && s.u.State != Owned &&
		s.u.State != Suspended {
		return
	}
	s.u.N = max(s.u.N, 1)
	s.propose(s.next(Renewal, s.u.Replicas...), false)
}

func (s *step) retried() {
	switch {
	case s.u.State == HandingOver && s.u.Ask.Phase == Consenting:
		s.offer()
	case s.u.State == HandingOver && s.u.Ask.Phase == Flushing:
		s.act(Action{Kind: FlushTo, To: []Member{s.u.To}})
	case s.u.State == Ceded:
		s.cede()
	case s.u.State == Suspended && s.u.Reasons&Proposed != 0 && s.u.Ask.Phase == Idle:
		s.propose(s.next(Renewal, s.u.Replicas...), false)
	default:
		s.again()
	}
}

func (s *step) witnessesLost() {
	switch {
	case s.u.Ask.Phase >= Preparing:
		s.propose(s.u.Ask.Want, true)
	case s.u.State == Suspended:
		s.u.Reasons |= Proposed
		s.propose(s.next(Renewal, s.u.Replicas...), true)
	case s.u.State != HandingOver:
		s.elect(true)
	}
}

// Events of replicas and other peers.

func (s *step) offered() {
	l := s.e.Record.Newest()
	if s.u.Copy != Complete || l == nil || l.Owner != s.e.Peer || l.ID() != s.u.Lease().ID() {
		return
	}
	if next := s.next(Handover, l.Owner.ID); next != nil {
		s.act(Action{Kind: Accept, To: []Member{s.e.Peer}, Lease: next})
	}
}

func (s *step) copyStarted() {
	s.see(s.e.Record)
	if l := s.u.Lease(); l == nil || l.Owner.ID == s.u.Self.ID ||
		l.ID() != s.e.Record.Newest().ID() {
		return
	}
	s.to(Replica)
	s.u.Then, s.u.Copy = None, Syncing
}

func (s *step) copyComplete() {
	s.u.Copy = Complete
	if s.u.State == Orphaned && s.u.Owns() {
		s.own(Orphaned)
	}
}

func (s *step) copyLost() {
	s.to(None)
	s.u.Then, s.u.Copy = None, NoCopy
	s.act(Action{Kind: Drop})
}

func (s *step) ownerSilent() {
	if s.u.State == None {
		s.to(Orphaned)
		return
	}
	if s.u.Copy == Complete {
		s.elect(false)
	}
}

// elect proposes this peer as the successor of the silent owner.
func (s *step) elect(near bool) {
	kind := Takeover
	if s.u.Copy != Complete {
		kind = Recreate
	}
	s.u.Then = s.u.State
	s.to(Electing)
	s.u.N = max(s.u.N, 1)
	s.propose(s.next(kind), near)
}

func (s *step) ownerHeard() {
	s.to(s.u.Then)
	s.u.Then, s.u.Ask = None, Ask{}
	if s.u.State == Orphaned {
		s.to(None)
	}
}

// restarted forgets what was in memory only.
func (s *step) restarted() {
	s.u.Ask, s.u.Reasons = Ask{}, 0
	switch s.u.State {
	case Claiming:
		s.to(None)
	case Electing:
		s.to(s.u.Then)
		s.u.Then = None
	case Deciding, Owned:
		s.suspend(NoQuorum)
	case Suspended:
		s.u.Reasons = NoQuorum
	case HandingOver:
		s.to(Suspended)
		s.u.Reasons, s.u.To = NoQuorum, Member{}
	}
	if s.u.State == Suspended && s.u.N > 0 && s.r.on(rule.Pending) {
		s.u.Reasons |= Proposed
	}
}

// String names the unit's state as in logs: with its reasons, successor or phase.
func (u Unit) String() string {
	switch u.State {
	case Suspended:
		return fmt.Sprintf("%v(%v)", u.State, u.Reasons)
	case HandingOver, Ceded:
		return fmt.Sprintf("%v(%s)", u.State, string(u.To.ID))
	case Replica:
		return fmt.Sprintf("%v(%v)", u.State, u.Copy)
	}
	return u.State.String()
}
