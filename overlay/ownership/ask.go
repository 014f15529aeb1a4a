package ownership

import (
	"cmp"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership/internal/rule"
)

// next returns the lease after the newest one, with this peer as its owner. It is nil if
// that cannot be encoded.
func (s *step) next(kind Kind, replicas ...peer.ID) *Lease {
	known, l := s.u.Lease(), Lease{Network: s.u.Network, Unit: s.u.Name, Epoch: 1, Kind: kind,
		Owner: s.u.Self, Witnesses: s.e.Set, Replicas: replicas}
	if known != nil {
		l.Network, l.Epoch, l.Prev = known.Network, known.Epoch+1, known.ID()
	}
	want, err := NewLease(l)
	if err != nil {
		s.report(err.Error())
	}
	return want
}

// propose begins to make want the next lease. An owner that has proposed nothing before
// asks for signatures at once, other peers ask for promises first.
func (s *step) propose(want *Lease, near bool) {
	if want == nil {
		return
	}
	known := s.u.Lease()
	a := Ask{Phase: Preparing, Near: near, Want: want}
	switch {
	case known == nil:
		a.Near, a.Electors = true, s.e.Near(s.u.Name)
	case near:
		a.Electors = s.e.Near(string(known.Owner.ID))
	default:
		a.Electors = known.electors()
	}
	if s.u.Owns() && s.u.N == 0 && !near {
		a.Phase, a.Lease = Signing, want
	} else {
		s.u.N = max(s.u.N, 1)
	}
	a.Ballot = Ballot{s.u.N, s.u.Self.ID}
	s.u.N++
	s.u.Ask = a
	s.request()
}

// again repeats a proposal at a higher ballot.
func (s *step) again() {
	if a := s.u.Ask; a.Phase >= Preparing && s.r.on(rule.Retry) {
		s.propose(a.Want, a.Near && s.u.Lease() != nil)
	}
}

// request sends the request of the present phase to the electors.
func (s *step) request() {
	a := s.u.Ask
	q := Request{Topic: Prepare, From: s.u.Self, Unit: s.u.Name, Record: s.u.Record, Near: a.Near,
		Ballot: a.Ballot}
	if a.Phase == Signing {
		q.Topic, q.Lease = Sign, a.Lease
	}
	s.act(Action{Kind: Send, To: a.Electors, Request: q})
}

// answered handles the reply of an elector or a witness.
func (s *step) answered() {
	re, a := s.e.Reply, s.u.Ask
	switch {
	case re.Refusal == IsOutdated:
		s.see(re.Record)
	case re.Prev != s.u.Lease().ID():
	case re.Topic == Heartbeat && re.Voted:
		s.voted()
	case re.Refusal == BallotTaken:
		s.u.N = max(s.u.N, re.Ballot.N+1)
	case re.Refusal != Consented, re.Topic == Prepare && a.Phase != Preparing,
		re.Topic == Sign && a.Phase != Signing, re.Topic != Prepare && re.Topic != Sign,
		re.Ballot != a.Ballot:
	default:
		s.consented(re)
	}
}

// consented counts a promise or a signature.
func (s *step) consented(re Reply) {
	a := s.u.Ask
	if slices.ContainsFunc(a.Said, func(x Signature) bool { return x.By.ID == re.By.ID }) {
		return
	}
	a.Said = append(slices.Clone(a.Said), Signature{By: re.By, Bytes: re.Signature})
	slices.SortFunc(a.Said, func(x, y Signature) int { return cmp.Compare(x.By.ID, y.By.ID) })
	if a.Phase == Preparing && re.Lease != nil && s.r.on(rule.Adopts) &&
		(a.Lease == nil || a.Best.Less(re.Signed)) {
		a.Lease, a.Best = re.Lease, re.Signed
	}
	s.u.Ask = a
	cert := Certificate{Ballot: a.Ballot, Near: a.Near, Signatures: a.Said}
	if s.r.enough(cert, a.Electors) != nil {
		return
	}
	if a.Phase == Preparing {
		if a.Lease == nil {
			a.Lease = a.Want
		}
		a.Phase, a.Said = Signing, nil
		if s.u.Owns() && a.Lease.Owner != s.u.Self {
			s.suspend(Proposed) // it completes what another peer has proposed
		}
		s.u.Ask = a
		s.request()
		return
	}
	s.accept(s.u.Record.with(Link{a.Lease, cert}))
}
