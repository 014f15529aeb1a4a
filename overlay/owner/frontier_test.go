package owner

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"peerd/store"
)

// fakeFrontier keeps what a Manager did to it. Hosts are in the store too, as
// the real one has it.
type fakeFrontier struct {
	db *store.DB

	mu     sync.Mutex
	hosts  map[string]netip.Prefix
	askAt  map[string]time.Time // given to AddHost
	single map[netip.Prefix]bool
	shut   map[netip.Prefix]bool
	adopts map[netip.Prefix]time.Time
	queues map[netip.Prefix]int64
	busy   chan struct{} // if not nil, Pause waits for it
}

func newFakeFrontier(db *store.DB) *fakeFrontier {
	return &fakeFrontier{
		db: db, hosts: map[string]netip.Prefix{}, askAt: map[string]time.Time{},
		single: map[netip.Prefix]bool{},
		shut:   map[netip.Prefix]bool{}, adopts: map[netip.Prefix]time.Time{},
		queues: map[netip.Prefix]int64{},
	}
}

func (f *fakeFrontier) AddHost(
	name string, p netip.Prefix, a netip.Addr, at time.Time,
) error {
	err := f.db.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: name, Subnet: p, Addr: a})
		return nil
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[name], f.askAt[name] = p, at
	return err
}

func (f *fakeFrontier) Owns(name string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	p, ok := f.hosts[name]
	return ok && !f.shut[p]
}

func (f *fakeFrontier) SetSerial(p netip.Prefix, on bool) { f.set(f.single, p, on) }
func (f *fakeFrontier) BeginPause(p netip.Prefix)         { f.set(f.shut, p, true) }
func (f *fakeFrontier) Resume(p netip.Prefix)             { f.set(f.shut, p, false) }

func (f *fakeFrontier) set(m map[netip.Prefix]bool, p netip.Prefix, on bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m[p] = on
}

func (f *fakeFrontier) Pause(ctx context.Context, p netip.Prefix) error {
	f.BeginPause(p)
	if f.busy == nil {
		return nil
	}
	select {
	case <-ctx.Done():
		f.Resume(p)
		return ctx.Err()
	case <-f.busy:
		return nil
	}
}

func (f *fakeFrontier) Adopt(p netip.Prefix, hosts []store.Host, at time.Time) {
	f.Drop(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range hosts {
		f.hosts[h.Name] = p
	}
	f.adopts[p] = at
}

func (f *fakeFrontier) Drop(p netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for h, q := range f.hosts {
		if q == p {
			delete(f.hosts, h)
		}
	}
	delete(f.single, p)
	delete(f.shut, p)
}

func (f *fakeFrontier) SubnetLoad(
	p netip.Prefix,
) (hosts int, pending int64, inFlight int, nextAt time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, q := range f.hosts {
		if q == p {
			hosts++
		}
	}
	return hosts, f.queues[p], 0, time.Time{}
}

// load makes a subnet have so many URLs by Load.
func (f *fakeFrontier) load(p netip.Prefix, n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queues[p] = n
}

func (f *fakeFrontier) is(m map[netip.Prefix]bool, p netip.Prefix) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m[p]
}
