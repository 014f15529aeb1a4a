package ownership

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership/internal/rule"
)

// The times that all peers of a network must agree on. The argument for safety needs that
// Hold is at most 3/4 of Promise, as the rates of clocks differ by less than a quarter.
const (
	// Hold is how long an answered heartbeat lets its owner fetch, from when it was sent.
	Hold = 15 * time.Second
	// Promise is how long a witness consents to no takeover, from when the heartbeat came.
	Promise = 20 * time.Second
	// AloneAfter is how long an owner with one witness stops when that does not answer. It
	// cannot tell a failure from a cut: then both peers may act.
	AloneAfter = 2 * time.Minute
	// RecreateAfter is how long an owner must be silent before a peer that it does not
	// count as a replica may follow it.
	RecreateAfter = 15 * time.Minute
	// LostAfter is how long an owner must be silent before the peers nearest to its key may
	// replace its witnesses.
	LostAfter = time.Hour
)

// A Topic says what a request is about.
type Topic uint8

// The topics of requests.
const (
	Heartbeat Topic = iota + 1 // the owner runs, and counts on these replicas
	Prepare                    // promise a ballot, and tell what was signed before
	Sign                       // sign a lease
)

// A Request is what a peer asks of an elector. The transport proves From.
type Request struct {
	Topic Topic
	From  Member
	// Unit and Record are what the request is about: the next lease after Record.
	Unit   string
	Record Record
	// Near says that the elector is asked as one of the peers nearest to a key.
	Near     bool
	Ballot   Ballot
	Lease    *Lease        // Sign: what is to be signed
	Sent     time.Duration // Heartbeat: by the owner's clock
	Seq      uint64        // Heartbeat: the number of Replicas
	Replicas []peer.ID
}

// A Refusal says why an elector refused; zero if it did not.
type Refusal uint8

// The reasons of refusals.
const (
	Consented   Refusal = iota
	IsOutdated          // the elector knows a newer lease: see Record
	NotElector          // it is not asked by the rule
	HeardOwner          // it has heard the owner, or may have before it restarted
	NotReplica          // the candidate is not counted as a replica
	BallotTaken         // it has promised a higher ballot: see Ballot
	IsInvalid           // the request contradicts itself
)

// A Reply answers a request. The transport proves By.
type Reply struct {
	Topic   Topic
	By      Member
	Prev    Digest // the lease that the request is about
	Refusal Refusal
	Ballot  Ballot // the request's; with BallotTaken, the promised one
	// Signed and Lease are what was signed before, for Prepare.
	Signed Ballot
	Lease  *Lease
	Record Record // with IsOutdated
	Sent   time.Duration
	Seq    uint64 // Heartbeat: the number of the newest replicas it knows
	Voted  bool   // Heartbeat: it has signed another peer's lease
	// Signature is the elector's, for Sign. The transport makes and verifies it.
	Signature []byte
}

// A Ledger is what an elector remembers of one unit. It is on disk before a reply leaves.
type Ledger struct {
	// Record is the newest that is known. What follows is about its successor.
	Record   Record
	Promised Ballot
	Signed   Ballot
	Lease    *Lease // what was signed at Signed; nil: nothing
	Seq      uint64
	Replicas []peer.ID
}

// Hearing is what an elector knows of an owner in memory, by its own clock.
type Hearing struct {
	Self    Member
	Now     time.Duration
	Started time.Duration // when this process started
	Heard   time.Duration // the owner's last heartbeat; not after Started: none
	// NewDisk reports that the store was created less than LostAfter ago.
	NewDisk bool
	Near    Near
}

// Answer is the rule of an elector: what it remembers and replies after a request. It does
// not change the ledger that it is given. The caller saves the ledger before it sends the
// reply, and notes the time of a Heartbeat that was not refused.
func (r Rules) Answer(m Ledger, h Hearing, q Request) (Ledger, Reply) {
	m = r.learn(m, h, q)
	known := m.Record.Newest()
	re := Reply{Topic: q.Topic, By: h.Self, Prev: q.Record.Newest().ID(), Ballot: q.Ballot,
		Sent: q.Sent}
	switch {
	case known.ID() != re.Prev:
		re.Refusal, re.Record = IsOutdated, m.Record
	case q.Topic == Heartbeat && !r.owns(known, q.From):
		re.Refusal = IsInvalid
	case q.Topic == Heartbeat:
		if q.Seq > m.Seq || !r.on(rule.NewestReplica) {
			m.Seq, m.Replicas = q.Seq, q.Replicas
		}
		re.Seq = m.Seq
		re.Voted = m.Lease != nil && m.Lease.Owner != known.Owner && r.on(rule.Notice)
	default:
		m, re = r.consent(m, h, q, re)
	}
	return m, re
}

// learn takes over a record that is newer than the ledger's. A peer that knows nothing
// believes one that names it as a witness, or by which it is asked as a neighbour.
func (r Rules) learn(m Ledger, h Hearing, q Request) Ledger {
	switch r.Read(m.Record.Newest(), q.Record, h.Near) {
	case Newer:
	case Unproven:
		l := q.Record.Newest()
		if !q.Near && !slices.Contains(l.electors(), h.Self) {
			return m
		}
	default:
		return m
	}
	return Ledger{Record: q.Record, Replicas: q.Record.Newest().Replicas}
}

// owns reports whether l names who as the owner.
func (r Rules) owns(l *Lease, who Member) bool {
	return l != nil && l.Owner.ID == who.ID && (l.Owner == who || !r.on(rule.OwnerStore))
}

// consent answers Prepare and Sign.
func (r Rules) consent(m Ledger, h Hearing, q Request, re Reply) (Ledger, Reply) {
	re.Refusal = r.refuse(m, h, q)
	switch {
	case re.Refusal == BallotTaken:
		re.Ballot = m.Promised
	case re.Refusal != Consented:
	case q.Topic == Prepare:
		m.Promised = q.Ballot
		if r.on(rule.Report) {
			re.Signed, re.Lease = m.Signed, m.Lease
		}
	default:
		m.Promised, m.Signed, m.Lease = q.Ballot, q.Ballot, q.Lease
		re.Lease = q.Lease
	}
	return m, re
}

// refuse returns why an elector refuses, or Consented.
func (r Rules) refuse(m Ledger, h Hearing, q Request) Refusal {
	known := m.Record.Newest()
	own := r.owns(known, q.From)
	switch {
	case !r.elector(known, h, q):
		return NotElector
	case q.Near && h.NewDisk && r.on(rule.NewStore):
		return HeardOwner
	case q.Ballot.By != q.From.ID, q.Topic == Sign && !fits(known, q), q.Ballot.N == 0 && !own:
		return IsInvalid
	case known == nil, own, q.Topic == Sign && !r.on(rule.SignSilence):
		return r.order(m, q)
	}
	if why := r.silent(m, h, q); why != Consented {
		return why
	}
	return r.order(m, q)
}

// order is Paxos: nothing below a promise, and one lease at a ballot.
func (r Rules) order(m Ledger, q Request) Refusal {
	switch {
	case q.Topic == Prepare && !m.Promised.Less(q.Ballot) && r.on(rule.Ascending),
		q.Topic == Sign && q.Ballot.Less(m.Promised) && r.on(rule.Promised):
		return BallotTaken
	case q.Topic == Sign && m.Lease != nil && m.Signed == q.Ballot &&
		m.Lease.ID() != q.Lease.ID() && r.on(rule.OneBallot):
		return IsInvalid
	}
	return Consented
}

// elector reports whether the peer may sign.
func (r Rules) elector(known *Lease, h Hearing, q Request) bool {
	var electors []Member
	switch {
	case known == nil:
		electors = h.Near(q.Unit)
	case q.Near:
		electors = h.Near(string(known.Owner.ID))
	default:
		electors = known.electors()
	}
	return slices.ContainsFunc(electors, func(e Member) bool { return e.ID == h.Self.ID })
}

// fits reports whether the lease to be signed is the next one.
func fits(known *Lease, q Request) bool {
	l := q.Lease
	if l == nil || l.Unit != q.Unit || l.Prev != known.ID() {
		return false
	}
	return known == nil && l.Epoch == 1 ||
		known != nil && l.Epoch == known.Epoch+1 && l.Network == known.Network
}

// silent returns the refusal of a takeover: the owner must have been silent for long
// enough, and longer if the candidate is not a replica that the owner counts on.
func (r Rules) silent(m Ledger, h Hearing, q Request) Refusal {
	wait, why := Promise, HeardOwner
	if !slices.Contains(m.Replicas, q.From.ID) && r.on(rule.Replica) {
		wait, why = RecreateAfter, NotReplica
	}
	if q.Near {
		wait = LostAfter
	}
	if h.Heard > h.Started && h.Now-h.Heard < wait && r.on(rule.Silence) ||
		h.Now-h.Started < wait && r.on(rule.Restart) {
		return why
	}
	return Consented
}
