package ownermap

import (
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"

	"peerd/coords/assign"
	"peerd/internal/lru"
	"peerd/overlay/lease"
)

// entry is the known lease of one subnet. It is immutable.
type entry struct {
	lease      lease.Lease // bare
	delegation assign.Delegation
}

// bare returns l without what proves it, which is most of its size.
func bare(l lease.Lease) lease.Lease {
	l.Grant, l.Takeover, l.Links, l.Receipts = nil, nil, nil, nil
	return l
}

func newEntry(l lease.Lease) *entry {
	l = bare(l)
	return &entry{lease: l, delegation: assign.Delegation{Subnet: l.Subnet, Owner: l.Owner.String(),
		Proxy: l.Proxy}}
}

// table contains the best known lease of each subnet, including those of this peer. Its methods
// may be called concurrently. Taking a snapshot is free.
type table struct {
	current atomic.Pointer[bart.Table[*entry]] // replaced, never modified

	mu     sync.Mutex // held by writers
	others *lru.Simple[netip.Prefix, time.Time]
	own    map[netip.Prefix]bool
	dirty  map[string]bool // prefixes with a changed stored form
}

// newTable returns a table for at most max subnets of other peers.
func newTable(max int) *table {
	t := &table{own: map[netip.Prefix]bool{}, dirty: map[string]bool{}}
	t.current.Store(new(bart.Table[*entry]))
	t.others = lru.NewSimple(max, func(p netip.Prefix, _ time.Time) {
		t.current.Store(t.current.Load().DeletePersist(p))
		t.dirty[p.String()] = true
	})
	return t
}

// get returns the entry of p.
func (t *table) get(p netip.Prefix) (*entry, bool) { return t.current.Load().Get(p) }

// size returns the number of subnets.
func (t *table) size() int { return t.current.Load().Size() }

// put adds a lease if it is better than the known one, and reports whether it did. A lease of
// another peer that differs from the known one only in its times is not added until pause has
// passed since the last one. An own subnet remains one until disown, whatever others announce.
func (t *table) put(e *entry, own bool, now time.Time, pause time.Duration) bool {
	p := e.lease.Subnet
	t.mu.Lock()
	defer t.mu.Unlock()
	if own && !t.own[p] {
		t.own[p] = true
		t.removeFromLRU(p)
	}
	if !t.adds(e, own, now, pause) {
		return false
	}
	t.current.Store(t.current.Load().InsertPersist(p, e))
	t.dirty[p.String()] = true
	if !t.own[p] {
		t.others.Add(p, now)
	}
	return true
}

// adds reports whether put adds a lease. The mutex is held.
func (t *table) adds(e *entry, own bool, now time.Time, pause time.Duration) bool {
	p := e.lease.Subnet
	old, ok := t.get(p)
	if !ok || now.Sub(old.lease.Expires) > lease.Grace { // any lease replaces it
		return true
	}
	heard, _ := t.others.Peek(p)
	return lease.Better(e.lease, old.lease) > 0 &&
		(own || now.Sub(heard) >= pause || !same(e.lease, old.lease))
}

// news reports whether put would add the lease of another peer, or the subnet is of this peer.
func (t *table) news(e *entry, now time.Time, pause time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.own[e.lease.Subnet] || t.adds(e, false, now, pause)
}

// removeFromLRU removes p from the eviction order but not from the table.
func (t *table) removeFromLRU(p netip.Prefix) {
	if t.others.Contains(p) {
		kept := t.current.Load()
		t.others.Remove(p)
		t.current.Store(kept)
	}
}

// disown treats an own subnet like those of other peers from now on.
func (t *table) disown(p netip.Prefix, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own[p] {
		delete(t.own, p)
		t.others.Add(p, now)
		t.dirty[p.String()] = true
	}
}

// retention is for how long a lease is kept after it expired. It no longer proves ownership,
// but the position of the subnet's servers is still useful.
const retention = 7 * 24 * time.Hour

// expire deletes leases that are too old.
func (t *table) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.others.Keys() {
		if e, ok := t.get(p); ok && now.Sub(e.lease.Expires) > retention {
			t.others.Remove(p)
		}
	}
}

// markDirty includes a key in the next changes.
func (t *table) markDirty(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dirty[key] = true
}

// changes returns the stored forms that have changed since the last call. Nil means deleted, or
// owned by this peer, which stores those leases elsewhere.
func (t *table) changes() map[string][]byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make(map[string][]byte, len(t.dirty))
	for key := range t.dirty {
		out[key] = nil
		p, err := netip.ParsePrefix(key)
		if err != nil {
			continue
		}
		if e, ok := t.get(p); ok && !t.own[p] {
			out[key], _ = e.marshal() // not saved if it cannot be encoded
		}
	}
	clear(t.dirty)
	return out
}

// view is a snapshot of the table.
type view struct{ all *bart.Table[*entry] }

var _ assign.Delegations = view{}

// Within yields the delegations inside p, ordered by prefix.
func (v view) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		if !p.IsValid() {
			return
		}
		for _, e := range v.all.Subnets(p.Masked()) {
			if !yield(e.delegation) {
				return
			}
		}
	}
}
