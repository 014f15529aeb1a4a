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
	cut     map[way]int          // how many faults cut it
	slow    map[way]time.Duration
	lossy   map[way]float64
	frozen  map[netip.Addr]int
	conns   map[*link]struct{}
	changed chan struct{} // closed and made anew whenever anything above changes
}

// way is one direction between two addresses.
type way struct{ from, to netip.Addr }

// New returns a network without machines. latency is what one direction takes
// when nothing is wrong; it must be pure.
func New(latency func(from, to netip.Addr) time.Duration) *Fabric {
	return &Fabric{
		latency: latency, hosts: make(map[netip.Addr]*Host),
		cut: make(map[way]int), slow: make(map[way]time.Duration), lossy: make(map[way]float64), frozen: make(map[netip.Addr]int),
		conns: make(map[*link]struct{}), changed: make(chan struct{}),
	}
}

// Cut stops everything from one address to another until Mend: what was sent
// and what is sent from now on waits. Each Cut needs its Mend.
func (f *Fabric) Cut(from, to netip.Addr) { f.change(func() { f.cut[way{from, to}]++ }) }

// Mend undoes one Cut.
func (f *Fabric) Mend(from, to netip.Addr) { f.change(func() { f.cut[way{from, to}]-- }) }

// Freeze stops everything from and to an address until Thaw.
func (f *Fabric) Freeze(a netip.Addr) { f.change(func() { f.frozen[a]++ }) }

// Thaw undoes one Freeze.
func (f *Fabric) Thaw(a netip.Addr) { f.change(func() { f.frozen[a]-- }) }

// Slow makes one direction take that much longer; 0 ends it.
func (f *Fabric) Slow(from, to netip.Addr, by time.Duration) {
	f.change(func() { f.slow[way{from, to}] = by })
}

// Lossy loses that share of what is sent in one direction from now on: a
// segment that is lost comes when it was sent again, and so does all that is behind
// it. 0 ends it; 1 and more is for Cut.
func (f *Fabric) Lossy(from, to netip.Addr, share float64) {
	f.change(func() { f.lossy[way{from, to}] = min(share, maxLossy) })
}

// maxLossy bounds Lossy, so that everything gets through some day.
const maxLossy = 0.9

// Drop loses all connections between two addresses: both ends read a reset
// when it gets to them. It returns how many there were.
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

// change does something to the fabric and tells everybody who waits.
func (f *Fabric) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
	f.tell()
}

// tell brings the lines up to date and wakes dials. f.mu is held.
func (f *Fabric) tell() {
	for l := range f.conns {
		for _, d := range l.lines {
			d.set(f.blocked(d.way), f.delay(d.way), f.lossy[d.way])
		}
	}
	close(f.changed)
	f.changed = make(chan struct{})
}

// blocked says whether nothing gets through. f.mu is held.
func (f *Fabric) blocked(w way) bool {
	return f.cut[w] > 0 || f.frozen[w.from] > 0 || f.frozen[w.to] > 0
}

// delay is how long a message takes. f.mu is held.
func (f *Fabric) delay(w way) time.Duration { return f.latency(w.from, w.to) + f.slow[w] }
