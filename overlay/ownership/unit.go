package ownership

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership/internal/rule"
)

// A State is what a unit is to a peer.
type State uint8

// The states. Only in Deciding, Owned and the first part of HandingOver anything is fetched.
const (
	None        State = iota // nothing here
	Claiming                 // a claim is being signed
	Deciding                 // owned; the strategy gathers estimations
	Owned                    // owned
	HandingOver              // owned; To becomes the successor
	Ceded                    // To has the certificate; the state is kept until To has it
	Suspended                // owned, but Reasons forbid to act
	Replica                  // a copy for the owner
	Electing                 // the owner is silent; a certificate is requested
	Orphaned                 // the owner is silent or has lost its disk; no copy here
)

// Reasons are why a unit is suspended.
type Reasons uint8

// The reasons.
const (
	NoQuorum Reasons = 1 << iota // too few witnesses have answered
	Proposed                     // this peer has proposed a successor, which may be signed
	DiskFull                     // nothing can be saved
	Offline                      // the web cannot be reached
)

// A Copy is how much of a unit's state is on this peer's disk.
type Copy uint8

// How much of the state is there.
const (
	NoCopy Copy = iota
	Syncing
	Complete
)

// A Phase is how far a proposal has come.
type Phase uint8

// The phases, in the order in which a handover goes through them.
const (
	Idle       Phase = iota
	Consenting       // the successor is asked for its consent
	Flushing         // the unit is paused; the successor receives the last changes
	Preparing        // the electors are asked for promises
	Signing          // the electors are asked for signatures
)

// An Ask is a proposal under way. It is in memory only: after a restart a higher ballot
// finds out what was signed.
type Ask struct {
	Phase    Phase
	Near     bool
	Ballot   Ballot
	Want     *Lease // what this peer proposes
	Lease    *Lease // what it has to propose: Want, or what was signed before
	Best     Ballot // at which Lease was signed
	Electors []Member
	Said     []Signature // the promises or signatures so far
}

// A Unit is the state of one unit at one peer. It is a value: [Rules.Step] returns a new one.
// Its fields apart from Reasons and Ask are on disk.
type Unit struct {
	Network, Name string
	Self          Member
	State         State
	// Then is where Suspended, HandingOver and Electing return to.
	Then    State
	Reasons Reasons
	// Record shows the newest lease that this peer has accepted.
	Record Record
	// To is the successor in HandingOver and Ceded.
	To   Member
	Copy Copy
	// N is the next unused ballot of this peer for the successor of the lease.
	N uint32
	// Replicas are the peers with a complete copy that the owner counts on; Seq counts
	// their changes under one lease.
	Seq      uint64
	Replicas []peer.ID
	Ask      Ask
}

// Lease returns the newest lease that this peer has accepted, or nil.
func (u Unit) Lease() *Lease { return u.Record.Newest() }

// Owns reports whether the newest lease names this peer with this disk.
func (u Unit) Owns() bool { return u.Lease() != nil && u.Lease().Owner == u.Self }

// MayFetch reports whether the peer may send requests to the unit's servers at now, by its
// own clock. In Deciding it makes one at a time. It is asked before each request.
func (r Rules) MayFetch(u Unit, q Quorum, now time.Duration) bool {
	switch u.State {
	case Deciding, Owned:
	case HandingOver:
		if u.Ask.Phase != Consenting && r.on(rule.StopFirst) {
			return false
		}
	default:
		return false
	}
	return r.Holds(q, u.Lease(), now)
}

// MayAcknowledge reports whether URLs that are on this disk, and on those of the given
// peers, count as safe.
func (r Rules) MayAcknowledge(u Unit, q Quorum, now time.Duration, on []peer.ID) bool {
	if !r.MayFetch(u, q, now) || !r.Knows(q, u.Lease(), u.Seq) {
		return false
	}
	return !r.on(rule.CopiesFirst) ||
		!slices.ContainsFunc(u.Replicas, func(p peer.ID) bool { return !slices.Contains(on, p) })
}

// An EventKind is what happened.
type EventKind uint8

// The events. Their sources are named in parentheses.
const (
	Wanted          EventKind = iota + 1 // URLs wait for a unit without a lease (outbox)
	Seen                                 // Record came from the DHT or a peer (register)
	Answered                             // Reply came from an elector (transport)
	Retried                              // it is time for the next attempt (work queue)
	Decided                              // Peer should own the unit (strategy, balance, drain)
	ReplicaReady                         // Peer has a complete copy of ours (transfer)
	ReplicaLost                          // Peer does not acknowledge (transfer)
	Offered                              // Peer offers the unit with Record (handover)
	Accepted                             // Peer consents to be the successor by Lease (handover)
	Flushed                              // Peer has all changes up to the pause (transfer)
	Received                             // Peer has the state and its lease on disk (handover)
	StateReceived                        // what Peer ceded is on disk, with Record (handover)
	CopyStarted                          // the owner sends a copy, with Record (transfer)
	CopyComplete                         // the copy is complete (transfer)
	CopyLost                             // the owner needs no copy here (transfer)
	OwnerSilent                          // for Promise (liveness)
	OwnerLost                            // for RecreateAfter, and no copy was found (liveness)
	OwnerHeard                           // again (liveness)
	WitnessesLost                        // for LostAfter, together with the owner (liveness)
	WitnessesChosen                      // Set replaces the witness set (liveness)
	QuorumLost                           // by Rules.Holds
	QuorumBack                           // by Rules.Holds
	Hindered                             // by DiskFull or Offline, in Reasons (house)
	Freed                                // of Reasons (house)
	Restarted                            // the process, with this unit on its disk (driver)
)

// An Event happens to a unit. Fields that its kind does not mention are zero, apart from Set
// and Near.
type Event struct {
	Kind    EventKind
	Peer    Member
	Record  Record
	Lease   *Lease
	Reply   Reply
	Reasons Reasons
	Set     []Member // the witness set for a lease of this peer that the event may lead to
	Near    Near
}

// An ActionKind is what the driver does. Each action may be repeated.
type ActionKind uint8

// The actions.
const (
	Save    ActionKind = iota + 1 // write the unit to disk, before what follows
	Send                          // send Request to the electors To
	Publish                       // write Record to the DHT
	Offer                         // offer the unit with Record to To[0]; see Offered, Accepted
	Accept                        // tell To[0] the Lease by which this peer would own the unit
	FlushTo                       // send To[0] the last changes; see Flushed
	CedeTo                        // send To[0] the Record and the state that it lacks
	Confirm                       // tell To[0] that its state is not needed any more
	Inform                        // send To[0] the Record; see Seen
	Pause                         // fetch and acknowledge nothing
	Resume                        // fetch
	Adopt                         // make the copy the unit's state, or begin with an empty one
	Drop                          // delete the copy
	Route                         // send waiting URLs to the owner in Record
	Report                        // log Text
)

// An Action is work for the driver.
type Action struct {
	Kind    ActionKind
	To      []Member
	Request Request
	Record  Record
	Lease   *Lease
	Text    string
}
