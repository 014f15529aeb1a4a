package replica

import (
	"net/netip"
	"sync"

	"peerd/store"
)

// subnetLocks excludes goroutines that change a copy or start a log of the same subnet.
type subnetLocks struct {
	mu     sync.Mutex
	locked map[netip.Prefix]chan struct{}
}

// lock waits until no other goroutine has locked the subnet, and excludes others until
// unlock is called.
func (x *subnetLocks) lock(p netip.Prefix) (unlock func()) {
	for {
		x.mu.Lock()
		c, taken := x.locked[p]
		if !taken {
			c = make(chan struct{})
			x.locked[p] = c
		}
		x.mu.Unlock()
		if !taken {
			return func() {
				x.mu.Lock()
				delete(x.locked, p)
				x.mu.Unlock()
				close(c)
			}
		}
		<-c
	}
}

// groupSync lets callers that arrive while a Sync is running share the next one.
type groupSync struct {
	db      *store.DB
	mu      sync.Mutex
	running *syncRun
	next    *syncRun
}

type syncRun struct {
	done chan struct{}
	err  error
}

// Sync returns when a Sync that began after the call has ended.
func (g *groupSync) Sync() error {
	g.mu.Lock()
	if g.running == nil {
		run := &syncRun{done: make(chan struct{})}
		g.running = run
		g.mu.Unlock()
		g.lead(run)
		return run.err
	}
	lead, before := g.next == nil, g.running
	if lead {
		g.next = &syncRun{done: make(chan struct{})}
	}
	run := g.next
	g.mu.Unlock()
	if !lead {
		<-run.done
		return run.err
	}
	<-before.done
	g.lead(run)
	return run.err
}

// lead runs a Sync and makes the next one current.
func (g *groupSync) lead(run *syncRun) {
	run.err = g.db.Sync()
	g.mu.Lock()
	g.running, g.next = g.next, nil
	g.mu.Unlock()
	close(run.done)
}
