package owner

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"peerd/coords/assign"
)

// levelPeer is one of a network's in balance tests: its balancer, and what it has.
type levelPeer struct {
	name   string
	b      *balancer
	limits Limits
	has    map[netip.Prefix]float64
	shown  float64 // capacity, as in its last beacon
	away   bool
}

// levelNet moves subnets between peers as their balancers say, in steps of 15 s.
type levelNet struct {
	t     *testing.T
	now   time.Time
	peers []*levelPeer
	times map[netip.Prefix]map[string]float64
	left  map[netip.Prefix]time.Time            // when it last left for load
	from  map[netip.Prefix]map[string]time.Time // and whom
	moves []time.Time
}

func newLevelNet(
	t *testing.T, rng *rand.Rand, pages []float64, subnets int, size func() float64,
) *levelNet {
	n := &levelNet{
		t: t, now: time.Unix(1e9, 0), times: map[netip.Prefix]map[string]float64{},
		left: map[netip.Prefix]time.Time{}, from: map[netip.Prefix]map[string]time.Time{},
	}
	for i, p := range pages {
		n.peers = append(n.peers, &levelPeer{
			name: fmt.Sprintf("p%d", i), b: newBalancer(), limits: Limits{Pages: p},
			has: map[netip.Prefix]float64{},
		})
	}
	for i := range subnets {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
		n.times[p], n.from[p] = map[string]float64{}, map[string]time.Time{}
		for _, q := range n.peers {
			n.times[p][q.name] = 20 + 200*rng.Float64()
		}
		n.peers[0].has[p] = size() // all was found by one
	}
	return n
}

func (q *levelPeer) load() (sum float64) {
	for _, s := range q.has {
		sum += s
	}
	return sum
}

// step is one round of all peers; beacons are up to two rounds old.
func (n *levelNet) step(i int) {
	n.now = n.now.Add(measureEvery)
	for _, q := range n.peers {
		if q.away {
			continue
		}
		q.b.observe(n.now, q.limits, q.load(), len(q.has))
		var loads []assign.Load
		for p, s := range q.has {
			loads = append(loads, assign.Load{Subnet: p, Size: s, Probes: n.times[p]})
		}
		capacity := map[string]float64{}
		for _, o := range n.peers {
			if o != q && !o.away && o.shown > 0 {
				capacity[o.name] = o.shown
			}
		}
		for _, r := range q.b.decide(n.now, q.name, loads, capacity) {
			n.give(q, r)
		}
	}
	for k, q := range n.peers {
		if (i+k)%2 == 0 {
			q.shown = q.b.capacity()
		}
	}
}

func (n *levelNet) give(q *levelPeer, r assign.Release) {
	size := q.has[r.Subnet]
	q.b.gave(n.now, r, size)
	for _, o := range n.peers {
		if o.name != r.To {
			continue
		}
		if err := o.b.accept(n.now, r.Subnet); err != nil {
			return // stays
		}
		if at, ok := n.left[r.Subnet]; ok && n.now.Sub(at) < loadCooldown {
			n.t.Errorf("%v moves for load again after %v", r.Subnet, n.now.Sub(at))
		}
		n.left[r.Subnet], n.moves = n.now, append(n.moves, n.now)
		n.from[r.Subnet][q.name] = n.now
		delete(q.has, r.Subnet)
		o.has[r.Subnet] = size
	}
}

func (n *levelNet) run(d time.Duration) {
	for i := range int(d / measureEvery) {
		n.step(i)
	}
}

// since counts the moves after a time.
func (n *levelNet) since(at time.Time) (c int) {
	for _, m := range n.moves {
		if m.After(at) {
			c++
		}
	}
	return c
}

func TestLoadIsBalancedAndConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := newLevelNet(t, rng, []float64{30_000, 40_000, 50_000, 20_000}, 60, func() float64 {
			return 200 + 2200*rng.Float64()
		})
		first := n.peers[0]
		total := first.load()
		for p, s := range first.has {
			first.has[p] = s * 100_000 / total // more than three of them hold
		}
		n.run(3 * time.Hour)
		for _, q := range n.peers {
			if q.load() > q.limits.Pages {
				t.Errorf("seed %d: %s has %.0f of %.0f", seed, q.name, q.load(), q.limits.Pages)
				for _, o := range n.peers {
					t.Logf("%s: %.0f of %.0f, capacity %.0f, relieves %v", o.name, o.load(),
						o.limits.Pages, o.b.capacity(), o.b.relieves)
				}
			}
		}
		rest := n.now
		n.run(6 * time.Hour)
		if c := n.since(rest); c > 0 {
			t.Errorf("seed %d: %d moves while nothing changed", seed, c)
		}
		if gap := n.least(); gap < time.Minute && len(n.moves) > 1 {
			t.Errorf("seed %d: two subnets left %v apart", seed, gap)
		}

		// One goes: what it had falls to the others at once. Then it is back with
		// nothing, and takes some of it.
		gone := n.peers[2]
		gone.away, gone.shown = true, 0
		for p, s := range gone.has {
			n.peers[1].has[p] = s
		}
		clear(gone.has)
		n.run(2 * time.Hour)
		gone.away, gone.b = false, newBalancer()
		n.run(4 * time.Hour)
		for _, q := range n.peers {
			if q.load() > q.limits.Pages {
				t.Errorf("seed %d: %s has %.0f of %.0f with all back", seed, q.name, q.load(),
					q.limits.Pages)
			}
		}
		rest = n.now
		n.run(6 * time.Hour)
		if c := n.since(rest); c > 0 {
			t.Errorf("seed %d: %d moves after peers came and went", seed, c)
		}
	}
}

// least is the least time between two moves from the first peer, which has all in
// the beginning.
func (n *levelNet) least() time.Duration {
	least := time.Duration(1 << 62)
	for i := 1; i < min(len(n.moves), 10); i++ {
		least = min(least, n.moves[i].Sub(n.moves[i-1]))
	}
	return least
}

func TestNoCapacityAnywhereMovesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 1))
	n := newLevelNet(t, rng, []float64{10_000, 10_000, 10_000}, 60, func() float64 { return 1000 })
	n.run(6 * time.Hour)
	rest := n.now
	n.run(12 * time.Hour)
	if c := n.since(rest); c > 0 {
		t.Errorf("%d moves among peers that are all full", c)
	}
}

func TestShortOverloadMovesNothing(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 1))
	n := newLevelNet(t, rng, []float64{10_000, 100_000}, 9, func() float64 { return 1000 })
	for range 40 { // over for three minutes, then not for ten
		for p := range n.times {
			n.peers[0].has[p] = 1800
		}
		n.run(3 * time.Minute)
		for p := range n.times {
			n.peers[0].has[p] = 600
		}
		n.run(10 * time.Minute)
	}
	if len(n.moves) > 0 {
		t.Errorf("%d moves for peaks of three minutes", len(n.moves))
	}
}
