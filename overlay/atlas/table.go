package atlas

import (
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gaissmai/bart"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"peerd/coords/assign"
	"peerd/overlay/lease"
)

// entry is what is known of one subnet. It does not change.
type entry struct {
	lease lease.Lease // without its evidence
	told  assign.Delegation
}

func newEntry(l lease.Lease) *entry {
	l.Grant, l.Takeover = nil, nil // checked, and most of the memory
	return &entry{lease: l, told: assign.Delegation{Subnet: l.Subnet, Owner: l.Owner.String(), Proxy: l.Proxy}}
}

// table holds the best lease known of each subnet, some of them this peer's.
// Its methods may be called at once; a snapshot costs nothing.
type table struct {
	now atomic.Pointer[bart.Table[*entry]] // never changed, only replaced

	mu     sync.Mutex // for writers
	others *simplelru.LRU[netip.Prefix, time.Time]
	own    map[netip.Prefix]bool
	dirty  map[string]bool // prefixes whose durable form is another now
}

// newTable returns a table for at most max subnets besides our own.
func newTable(max int) (*table, error) {
	t := &table{own: map[netip.Prefix]bool{}, dirty: map[string]bool{}}
	t.now.Store(new(bart.Table[*entry]))
	var err error
	t.others, err = simplelru.NewLRU(max, func(p netip.Prefix, _ time.Time) {
		t.now.Store(t.now.Load().DeletePersist(p))
		t.dirty[p.String()] = true
	})
	if err != nil {
		return nil, fmt.Errorf("atlas: %w", err)
	}
	return t, nil
}

// get returns what is known of p.
func (t *table) get(p netip.Prefix) (*entry, bool) { return t.now.Load().Get(p) }

// size is the number of subnets known.
func (t *table) size() int { return t.now.Load().Size() }

// put takes a lease in if it is better than the one known, and says whether it
// was. One of another peer that says the same as before, only later, is no news
// before pause has passed since the last.
func (t *table) put(e *entry, own bool, now time.Time, pause time.Duration) bool {
	p := e.lease.Subnet
	t.mu.Lock()
	defer t.mu.Unlock()
	all := t.now.Load()
	if old, ok := all.Get(p); ok && now.Sub(old.lease.Expires) <= lease.Grace { // else anybody may claim it
		better := lease.Better(e.lease, old.lease)
		if own && better == 0 { // ours again
			t.own[p] = true
			t.drop(p)
		}
		if better <= 0 {
			return false
		}
		heard, _ := t.others.Peek(p)
		if !own && now.Sub(heard) < pause && same(e.lease, old.lease) {
			return false
		}
	}
	t.now.Store(all.InsertPersist(p, e))
	t.dirty[p.String()] = true
	if own {
		t.own[p] = true
		t.drop(p)
		return true
	}
	delete(t.own, p)
	t.others.Add(p, now)
	return true
}

// drop takes p out of the order of leaving, and not out of the table.
func (t *table) drop(p netip.Prefix) {
	if t.others.Contains(p) {
		kept := t.now.Load()
		t.others.Remove(p)
		t.now.Store(kept)
	}
}

// disown makes subnets that were ours ordinary ones: whoever has them now will
// tell.
func (t *table) disown(p netip.Prefix, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.own[p] {
		delete(t.own, p)
		t.others.Add(p, now)
	}
}

// keepFor is how long after its end a lease is kept. It counts for nothing by
// then, but where the servers stand is still worth knowing.
const keepFor = 7 * 24 * time.Hour

// expire forgets leases that are too old.
func (t *table) expire(now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range t.others.Keys() {
		if e, ok := t.get(p); ok && now.Sub(e.lease.Expires) > keepFor {
			t.others.Remove(p)
		}
	}
}

// touch has the durable form of a prefix written, or removed, with the next
// changes.
func (t *table) touch(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.dirty[key] = true
}

// changes returns the durable forms that have changed since it was called last;
// nil are gone, or ours, which are kept elsewhere.
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
			out[key], _ = e.marshal() // what cannot be encoded is not kept
		}
	}
	clear(t.dirty)
	return out
}

// view is a snapshot.
type view struct{ all *bart.Table[*entry] }

var _ assign.Known = view{}

// Within yields the delegations inside p, in the order of their prefixes.
func (v view) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		if !p.IsValid() {
			return
		}
		for _, e := range v.all.Subnets(p.Masked()) {
			if !yield(e.told) {
				return
			}
		}
	}
}
