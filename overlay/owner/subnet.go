package owner

import (
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/record"
	"peerd/store"
)

// subnet is the state of one subnet of ours, guarded by the table's mutex. Only table.step changes
// its unit.
type subnet struct {
	prefix netip.Prefix
	unit   ownership.Unit
	votes  ownership.Votes // of witnesses for another owner
	ourLease
	decision
	departure
	watched
	replication
	contact contact
	disk    diskState
	entered int           // see table.enter
	exited  chan struct{} // closed when entered is 0; nil if no goroutine waits for it
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
	unsaved int                  // samples that came in since the state was last saved
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

// departure is what this peer has of the way of a subnet to another one.
type departure struct {
	moving bool        // a goroutine hands it over, or yields it
	grant  []byte      // what was signed for the successor; not nil while Granted
	by     lease.Lease // the lease by which it was lost
}

// diskState says whether the disk has the state of a subnet.
type diskState uint8

const (
	diskSaved    diskState = iota
	diskUnsaved            // it lacks what was changed last
	diskRemoving           // the state was removed, or is about to be; it is not saved
)

// free reports that the subnet was decided and that nothing else is being done with it.
func (s *subnet) free() bool { return s.unit.Decided && s.idleHere() }

// idleHere reports whether nothing else is being done with a subnet. The table's mutex is held.
func (s *subnet) idleHere() bool { return s.unit.Usable() && !s.again }

// phase returns the unit's state as the disk has it: until the grant an intention to leave is
// not written down.
func (s *subnet) phase() store.Phase {
	switch {
	case s.unit.State == ownership.Granted:
		return store.PhaseCommitting
	case s.unit.Decided:
		return store.PhaseOwned
	}
	return store.PhaseDeciding
}

// observe keeps a sample.
func (s *subnet) observe(x coords.Sample) {
	s.history.add(x)
	s.history.trim()
	s.news = true
	s.unsaved++
}

// saveEvery is how many samples of a decided subnet are saved together at least.
const saveEvery = 8

// learned reports whether much of what is known of a subnet is not on the disk.
func (s *subnet) learned() bool { return s.unsaved >= max(saveEvery, len(s.history)/2) }
