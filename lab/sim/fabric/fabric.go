package fabric

import (
	"net/netip"
	"sync"
	"time"
)

// Fabric is a network. Its methods may be called concurrently.
type Fabric struct {
	latency func(from, to netip.Addr) time.Duration

	mu      sync.Mutex
	hosts   map[netip.Addr]*Host // the latest at each address
	cut     map[way]int          // number of cuts
	slow    map[way]time.Duration
	lossy   map[way]float64
	frozen  map[netip.Addr]int
	conns   map[*link]struct{}
	changed chan struct{} // closed and replaced whenever a field above changes
}

// way is one direction between two addresses.
type way struct{ from, to netip.Addr }

// New returns a network without machines. latency returns the latency of one direction
// without faults; it must be a pure function.
func New(latency func(from, to netip.Addr) time.Duration) *Fabric {
	return &Fabric{
		latency: latency, hosts: make(map[netip.Addr]*Host),
		cut: make(map[way]int), slow: make(map[way]time.Duration), lossy: make(map[way]float64),
		frozen: make(map[netip.Addr]int),
		conns:  make(map[*link]struct{}), changed: make(chan struct{}),
	}
}

// Cut blocks one direction until Heal: data in flight and data sent from now on waits.
// Each Cut needs a Heal of its own.
func (f *Fabric) Cut(from, to netip.Addr) { f.change(func() { f.cut[way{from, to}]++ }) }

// Heal undoes one Cut.
func (f *Fabric) Heal(from, to netip.Addr) { f.change(func() { f.cut[way{from, to}]-- }) }

// Freeze blocks both directions of all links of an address until Unfreeze.
func (f *Fabric) Freeze(a netip.Addr) { f.change(func() { f.frozen[a]++ }) }

// Unfreeze undoes one Freeze.
func (f *Fabric) Unfreeze(a netip.Addr) { f.change(func() { f.frozen[a]-- }) }

// Slow adds latency to one direction; 0 removes it.
func (f *Fabric) Slow(from, to netip.Addr, by time.Duration) {
	f.change(func() { f.slow[way{from, to}] = by })
}

// Lossy loses a share of the segments sent in one direction from now on. A lost segment
// arrives after it was retransmitted, and so do all segments behind it. 0 ends the
// losses; shares above 0.9 are reduced to that.
func (f *Fabric) Lossy(from, to netip.Addr, share float64) {
	f.change(func() { f.lossy[way{from, to}] = min(share, maxLossy) })
}

// maxLossy limits the share of Lossy, so that each segment arrives eventually.
const maxLossy = 0.9

// Drop resets all connections between two addresses: both ends read a reset when it
// arrives. It returns the number of connections.
func (f *Fabric) Drop(a, b netip.Addr) (n int) {
	f.change(func() {
		for l := range f.conns {
			if l.between(a, b) {
				n++
				l.reset(0)
				l.reset(1)
			}
		}
	})
	return n
}

// change calls do with f.mu held and notifies all waiters.
func (f *Fabric) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.tell()
}

// tell updates the lines and wakes dials. f.mu is held.
func (f *Fabric) tell() {
	for l := range f.conns {
		for _, d := range l.lines {
			d.set(f.blocked(d.way), f.delay(d.way), f.lossy[d.way])
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// blocked reports whether w is blocked. f.mu is held.
func (f *Fabric) blocked(w way) bool {
	return f.cut[w] > 0 || f.frozen[w.from] > 0 || f.frozen[w.to] > 0
}

// delay returns the latency of w. f.mu is held.
func (f *Fabric) delay(w way) time.Duration { return f.latency(w.from, w.to) + f.slow[w] }
