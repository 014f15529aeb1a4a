package owner

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/ownership"
	"peerd/store"
)

// table holds the subnets of this peer, and nothing else does. A part reads and changes a subnet
// while it holds mu. mu is never held during I/O; the Frontier's own lock comes after it.
type table struct {
	*env
	draining       atomic.Bool // this peer leaves, and takes no subnets
	diskFull       atomic.Bool // the last write failed for lack of disk space
	mu             sync.Mutex
	subnets        map[netip.Prefix]*subnet
	diskFullLogged time.Time
}

// Live says whether a subnet's hosts are ours.
func (t *table) Live(p netip.Prefix) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.subnets[p] != nil
}

// Owns reports whether any subnet's hosts are ours.
func (t *table) Owns() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.subnets) > 0
}

// MayFetch reports whether pages of a subnet may be requested now: it is ours, it does not leave,
// and it has no other owner as far as is known.
func (t *table) MayFetch(p netip.Prefix) bool {
	t.mu.Lock()
	s := t.subnets[p]
	works := s != nil && s.unit.Works()
	t.mu.Unlock()
	return works && t.HasQuorumLease()
}

// List returns a row a subnet.
func (t *table) List() []Info {
	right := t.HasQuorumLease()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Info, 0, len(t.subnets))
	for _, s := range t.subnets {
		i := s.info()
		i.Unverified = i.Unverified || !right
		all = append(all, i)
	}
	return all
}

// Counts returns the current numbers. It looks at each subnet, but allocates nothing.
func (t *table) Counts() (c Counts) {
	right := t.HasQuorumLease()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.subnets {
		switch {
		case !right || s.unit.Doubt != 0 || s.unit.State == ownership.Yielding:
			c.Unverified++
		case s.unit.Leaves():
			c.Leaving++
		case !s.unit.Decided:
			c.Estimating++
		default:
			c.Owned++
		}
	}
	return c
}

// Decided returns the subnets that are ours for good, in no order.
func (t *table) Decided() []Decided {
	now := time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]Decided, 0, len(t.subnets))
	for _, s := range t.subnets {
		if !s.unit.Decided || !s.unit.Works() {
			continue
		}
		d := Decided{Subnet: s.prefix}
		if s.renewAt.After(now) {
			d.Sealed = s.sealed
		}
		all = append(all, d)
	}
	return all
}

// guarded returns the subnets that have, or should have, replicas.
func (t *table) guarded() []*subnet {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*subnet
	for _, s := range t.subnets {
		if s.unit.Works() && (t.cfg.ReplicaCount > 0 || len(s.replicas) > 0) {
			all = append(all, s)
		}
	}
	return all
}

// enter keeps a subnet from leaving until the caller has called exit: a host is added to it, or its
// replicas are looked after. It returns false if it is leaving or has left.
func (t *table) enter(s *subnet) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.subnets[s.prefix] != s || s.unit.Leaves() {
		return false
	}
	s.entered++
	return true
}

// exit ends what enter began.
func (t *table) exit(s *subnet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.entered--; s.entered == 0 && s.exited != nil {
		close(s.exited)
		s.exited = nil
	}
}

// awaitExits waits until all that have entered a subnet, which is leaving, have called exit.
func (t *table) awaitExits(ctx context.Context, s *subnet) error {
	t.mu.Lock()
	if s.entered == 0 {
		t.mu.Unlock()
		return nil
	}
	if s.exited == nil {
		s.exited = make(chan struct{})
	}
	exited := s.exited
	t.mu.Unlock()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-exited:
		return nil
	}
}

// granted reports whether the successor of a subnet may own it by now.
func (t *table) granted(s *subnet) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.unit.State == ownership.Granted
}

// deciding reports whether a subnet is ours and not decided yet.
func (t *table) deciding(p netip.Prefix) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.subnets[p]
	return s != nil && s.unit.Searches()
}

// evidence is what is known of a subnet by its downloads.
func (t *table) evidence(
	s *subnet, candidates []assign.Candidate, now time.Time,
) assign.Evidence {
	t.mu.Lock()
	defer t.mu.Unlock()
	return assign.Evidence{
		Subnet: s.prefix, Self: t.self, Candidates: candidates,
		Samples: s.history.samples(), Now: now,
	}
}

// suspect has the lease of a subnet renewed soon, because a peer says that it
// knows a better one.
func (t *table) suspect(s *subnet, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s.renewAt.After(now) && now.Sub(s.suspected) > suspectEvery {
		s.renewAt, s.suspected = now, now
	}
}

// save writes the state of a subnet to the disk. What fails for lack of space is
// written by a later tick.
func (t *table) save(s *subnet) error { return t.saveCounting(s, store.Counters{}) }

// saveCounting is save, and adds n to the counters. The state is that at the time of the
// transaction, of which there is one at a time: an older one never replaces a newer one.
func (t *table) saveCounting(s *subnet, n store.Counters) error {
	err := t.cfg.DB.Batch(func(tx *store.Tx) error {
		t.mu.Lock()
		r, err := s.record()
		s.unsaved = 0
		current := t.subnets[s.prefix] == s && s.disk != diskRemoving
		t.mu.Unlock()
		if err != nil || !current {
			return err
		}
		if n != (store.Counters{}) {
			tx.Count(n)
		}
		return tx.PutSubnet(r)
	})
	t.mu.Lock()
	switch {
	case s.disk == diskRemoving:
	case err != nil:
		s.disk = diskUnsaved
	default:
		s.disk = diskSaved
	}
	t.mu.Unlock()
	return err
}

// remove runs a function that removes the state of a subnet from the disk, or replaces it by that
// of a copy, and then drops the subnet from memory. Meanwhile the state is not saved.
func (t *table) remove(s *subnet, fromDisk func() error) error {
	t.mu.Lock()
	s.disk = diskRemoving
	t.mu.Unlock()
	err := fromDisk()
	if err == nil {
		t.drop(s)
		return nil
	}
	t.mu.Lock()
	s.disk = diskUnsaved // it may have changed meanwhile
	t.mu.Unlock()
	return err
}

// drop removes a subnet from memory after its record has changed to that of another
// peer's.
func (t *table) drop(s *subnet) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kind := ownership.Left
	if s.unit.State == ownership.Granted {
		kind = ownership.Taken
	}
	t.step(s, ownership.Event{Kind: kind})
	delete(t.subnets, s.prefix)
	t.cfg.Frontier.Drop(s.prefix)
}

// Counts are the numbers of subnets of this peer by state. Each subnet is in one of them.
type Counts struct {
	Estimating int // the strategy still searches for the nearest peer
	Owned      int
	Leaving    int // on their way to another peer
	Unverified int // another peer may own them by now: nothing is fetched there
}

// Decided is a subnet that is ours for good, until something changes.
type Decided struct {
	Subnet netip.Prefix
	// Sealed is its lease; nil until the lease that contains the decision is signed.
	Sealed []byte
}

// suspectEvery is how often a lease is renewed on a peer's word.
const suspectEvery = 15 * time.Second

// Info is what the outside may know of a subnet.
type Info struct {
	Prefix      netip.Prefix
	Epoch       uint64
	Phase       store.Phase
	Proxy       *coords.Proxy
	Estimations int
	Since       time.Time
	Moves       int // recent moves because the nearest peer changed
	// Unverified reports that the subnet may have another owner by now, because a witness has
	// voted, the lease could not be renewed, or this peer has no quorum lease. Until that is
	// known nothing is fetched there.
	Unverified bool
	// Revoked reports that it is a witness's vote.
	Revoked bool
	// Replicas are the peers that keep a copy of everything except what was committed just
	// now.
	Replicas []peer.ID
}

func (s *subnet) info() Info {
	i := Info{
		Prefix: s.prefix, Epoch: s.lease.Epoch, Phase: s.phase(), Proxy: s.lease.Proxy,
		Estimations: s.estimations, Since: s.since, Moves: len(s.watch.Moves),
		Unverified: s.unit.Doubt != 0 || s.unit.State == ownership.Yielding,
		Revoked:    s.unit.Doubt&ownership.VotedAway != 0,
	}
	for _, k := range s.replicas {
		if k.synced {
			i.Replicas = append(i.Replicas, k.id)
		}
	}
	return i
}

// show gives the frontier the state of a subnet, unless it is not there yet or has left. The
// table's mutex is held.
func (t *table) show(s *subnet) {
	if t.subnets[s.prefix] != s {
		return
	}
	t.cfg.Frontier.SetSerial(s.prefix, s.unit.Searches() || s.again)
	if s.unit.Works() {
		t.cfg.Frontier.Resume(s.prefix)
	} else {
		t.cfg.Frontier.BeginPause(s.prefix)
	}
}

// step gives an event to a subnet's unit and does what follows from it in memory. It reports
// whether the caller has to save the subnet before another peer learns of its state. The table's
// mutex is held.
func (t *table) step(s *subnet, e ownership.Event) (save bool) {
	e.Revive = t.cfg.Times.Revive
	next, actions := s.unit.Step(e)
	s.unit = next
	for _, a := range actions {
		switch a {
		case ownership.Save:
			save = true
		case ownership.Renew:
			s.renewAt = time.Now()
		case ownership.Recheck:
			s.renewAt = next.VotedAt.Add(e.Revive)
		case ownership.Leave:
			t.wake()
		default: // work stops, goes on, or goes on in another way
			t.show(s)
		}
	}
	return save
}
