package owner

import (
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/overlay/record"
	"peerd/store"
)

// subnet is the state of one subnet of ours, guarded by the table's mutex. It is made of four
// states:
//
//	phase           deciding --> owned --> committing, on the disk
//	departure.state staying --> copying --> closed --> (committing); beaten ends each of them
//	doubt           none, stale, voted away: nothing is fetched or acknowledged meanwhile
//	disk            saved, unsaved, removing
type subnet struct {
	prefix netip.Prefix
	phase  store.Phase
	ourLease
	doubt
	decision
	departure
	watched
	replication
	contact contact
	disk    diskState
	adding  sync.WaitGroup // hosts being added; none begins once the subnet is leaving
}

// ourLease is the lease of a subnet, and when it is renewed and read again.
type ourLease struct {
	lease     lease.Lease
	sealed    []byte
	since     time.Time
	renewAt   time.Time
	renewing  bool
	suspected time.Time      // when a peer last said that it knows a better one
	rereads   record.Rereads // see rivals.go
	back      bool           // they were planned because a peer is back
}

// doubt is why a subnet may have another owner by now.
type doubt struct {
	stale bool // the lease is too old to count until it is renewed
	// when a witness last said that it is voted away; zero: not, or long ago
	revoked time.Time
	voters  map[peer.ID]voter // witnesses that did; see voters.go
}

// decision is the state of the search for the nearest peer.
type decision struct {
	exclude     map[string]bool // asked and not reached
	estimations int             // fetches by others before the decision
	idleSince   time.Time       // nothing queued and nothing under way; zero when busy
	sought      int             // samples behind the last search for peers near the server
	probe       assign.Step     // the last that the strategy asked for; no Probe: it was made
	asked       string          // who fetches for us; outlives a restart
	again       bool            // asked before a restart: may be fetching still
}

// watched is what is known of the downloads from a subnet, and what reviews go by.
type watched struct {
	history history
	news    bool                 // samples came in since the proxy was fitted
	watch   assign.ReviewState   // once it is decided
	avoid   map[string]time.Time // whom no scout is sent to, until when
	lenders []string             // who had it until their hours ended, the first one first
}

// replication is what is known of the copies at other peers.
type replication struct {
	replicas []replicaPeer
	copied   time.Time // when a replica was last known to have all of it
	prefer   []string  // who is known to have much of it already
}

// departState says how far a subnet is on its way to another peer.
type departState uint8

const (
	departNone    departState = iota
	departCopying             // its successor gets a copy; work continues
	departClosed              // work has stopped; it is handed to the successor
	departBeaten              // a better lease is known: it is yielded
)

// moveReason says why a subnet leaves.
type moveReason uint8

const (
	moveOther  moveReason = iota
	moveChosen            // the strategy's choice: the successor is the nearest peer
	moveNearer            // a review has found a nearer peer
	moveHours             // this peer's working hours end: it is lent
)

// departure is how a subnet leaves.
type departure struct {
	state  departState
	to     string // the successor; "" if there is none, or another peer has taken the subnet
	why    moveReason
	moving bool        // a goroutine hands it over, or yields it
	grant  []byte      // what was signed for the successor; not nil while PhaseCommitting
	by     lease.Lease // the lease by which it was lost
}

// diskState says whether the disk has the state of a subnet.
type diskState uint8

const (
	diskSaved    diskState = iota
	diskUnsaved            // it lacks what was changed last
	diskRemoving           // the state was removed, or is about to be; it is not saved
)

// leaving says that the subnet is on its way to another peer: it takes no hosts and no URLs.
func (s *subnet) leaving() bool {
	return s.phase == store.PhaseCommitting || s.state >= departClosed
}

// stays reports that the subnet is not to leave.
func (s *subnet) stays() bool { return !s.leaving() && s.to == "" }

// usable reports that the subnet stays and has no other owner as far as is known.
func (s *subnet) usable() bool { return s.stays() && !s.unverified() }

// free reports that the subnet was decided and that nothing else is being done with it.
func (s *subnet) free() bool { return s.phase == store.PhaseOwned && s.usable() && !s.again }

// lost reports that a better lease is known.
func (s *subnet) lost() bool { return s.state == departBeaten }

// unverified reports that the subnet may have another owner by now: nothing is fetched
// or acknowledged until that is known.
func (s *subnet) unverified() bool { return s.stale || !s.revoked.IsZero() }

// keep ends the search: this peer is the nearest.
func (s *subnet) keep(now time.Time) {
	s.phase = store.PhaseOwned
	s.renewAt = now // announces the proxy coordinate
}

// leaveFor starts a handover: the successor gets a copy while work continues.
func (s *subnet) leaveFor(to string, why moveReason) {
	s.state, s.to, s.why = departCopying, to, why
}

// leaveAtOnce is leaveFor for a subnet that is still decided: work stops.
func (s *subnet) leaveAtOnce(to string) { s.state, s.to, s.why = departClosed, to, moveChosen }

// stay cancels a handover, or one that has failed. A subnet that is lost remains so.
func (s *subnet) stay() {
	if !s.lost() {
		s.state = departNone
	}
	s.to, s.why, s.moving = "", moveOther, false
	s.idleSince = time.Time{}
}

// reclaim ends a commit to a successor that has not used its grant.
func (s *subnet) reclaim(l lease.Lease, sealed []byte) {
	s.lease, s.sealed, s.phase, s.grant = l, sealed, store.PhaseOwned, nil
}

// observe keeps a sample.
func (s *subnet) observe(x coords.Sample) {
	s.history.add(x)
	s.history.trim(s.lease.Owner.String())
	s.news = true
}
