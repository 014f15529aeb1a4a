//go:build integration

package assign_test

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"
)

var (
	adaptHours = flag.Float64("adapt-hours", 0,
		"simulated hours per subnet in the tests of reviews; 0 runs a short form")
	adaptSeed = flag.Uint64("adapt-seed", 0, "first seed of the tests of reviews")
)

// TestAdaptNoFlappingLong runs 20 subnets in networks where nothing changes.
// docs/results/2026-11-coordinates.md describes the worlds.
func TestAdaptNoFlappingLong(t *testing.T) {
	for i, n := range natures {
		hours := *adaptHours
		if hours == 0 {
			if i%4 != 0 {
				continue
			}
			hours = 0.05
		}
		t.Run(n.name, func(t *testing.T) {
			checkNoFlapping(t, n, 20, *adaptSeed+uint64(i), hours)
		})
	}
}

// busiest is the peer with the most subnets.
func (c *colony) busiest() int {
	n := make([]int, c.peers)
	for _, h := range c.holdings {
		n[h.owner]++
	}
	return slices.Index(n, slices.Max(n))
}

// follow lets time pass, and returns after how long each of the subnets that
// fulfil a condition by then did so first.
func (c *colony) follow(
	hs []*holding, limit time.Duration, done func(*holding) bool,
) (took []time.Duration) {
	start := c.begin
	reached := make(map[*holding]bool)
	for c.begin.Sub(start) < limit {
		c.run(time.Second)
		for _, h := range hs {
			if !reached[h] && done(h) {
				reached[h] = true
				took = append(took, c.begin.Sub(start))
			}
		}
	}
	return took
}

// natures are the worlds that are simulated, by name.
var natures = []nature{
	{name: "8 peers", peers: 8},
	{name: "16 peers", peers: 16},
	{name: "16 peers, a page each 0.3 s", peers: 16, gap: 300 * time.Millisecond},
	{name: "8 peers, a page each 4 s", peers: 8, gap: 4 * time.Second},
	{name: "8 peers, four pairs of twins", peers: 8, twins: true},
	{name: "8 peers, heavy tails", peers: 8, tails: true},
	{name: "8 peers, spells", peers: 8, spells: true},
	{name: "16 peers, twins, tails and spells, a page each 4 s", peers: 16, gap: 4 * time.Second,
		twins: true, tails: true, spells: true},
}

// affectedBy is the share of the owner's time that another peer takes for a subnet
// to count as affected: pages here scatter by 40 %, and to prove less of a gain takes
// more pages of scouts than are spared for it in two minutes.
const affectedBy = 0.6

// figures are the sums of the worlds of a test.
type figures struct {
	affected, moved int // subnets; those that left within two minutes
	away, returned  int // subnets clearly better at the former owner; those that returned
	needless        int
	hours           float64 // of all subnets, after the change
}

func (f figures) String() string {
	share := func(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }
	return fmt.Sprintf("%d affected, %.1f %% gone in 2 min; %d clearly better back, %.1f %% "+
		"returned in 8 min; %d needless moves in %.0f subnet-hours, %.2f per 100", f.affected,
		share(f.moved, f.affected), f.away, share(f.returned, f.away), f.needless, f.hours,
		100*float64(f.needless)/max(1, f.hours))
}

// A peer becomes slow and recovers: its subnets leave it and come back.
func TestAdaptFollowsAPeer(t *testing.T) {
	first := *adaptSeed
	worlds, seeds, subnets, least, want := []nature{natures[0]}, uint64(3), 40, 3, 0.6
	if *adaptHours > 0 {
		worlds, seeds, want = natures, 3, 0.9
	}
	var sum figures
	defer func() { t.Logf("all worlds: %v", sum) }()
	for _, n := range worlds {
		for _, tc := range []struct {
			name        string
			slow, again func(c *colony, peer int)
		}{
			{"bandwidth a fifth", func(c *colony, p int) { c.perKB[p] *= 5 },
				func(c *colony, p int) { c.perKB[p] /= 5 }},
			{"load", func(c *colony, p int) { c.lag[p] = 400 },
				func(c *colony, p int) { c.lag[p] = 0 }},
		} {
			t.Run(n.name+"/"+tc.name, func(t *testing.T) {
				var affected, away, needless, fewer, fewerLeft int
				var left, back []time.Duration
				for seed := range seeds {
					c := newColony(t, n, subnets, first+seed)
					c.run(4 * time.Minute)
					peer := c.busiest()
					tc.slow(c, peer)
					var leave, little, come []*holding
					for _, h := range c.holdings {
						switch best := c.best(h) / c.truth(h, peer); {
						case h.owner != peer:
						case best < affectedBy:
							leave = append(leave, h)
						case best < 0.7:
							little = append(little, h)
						}
					}
					begin := c.begin
					left = append(left, c.follow(leave, 3*time.Minute, func(h *holding) bool {
						return h.owner != peer
					})...)
					for _, h := range little {
						if fewer++; h.owner != peer {
							fewerLeft++
						}
					}
					tc.again(c, peer)
					for _, h := range leave {
						if h.owner != peer && c.truth(h, peer) < affectedBy*c.truth(h, h.owner) {
							come = append(come, h)
						}
					}
					back = append(back, c.follow(come, 8*time.Minute, func(h *holding) bool {
						return h.owner == peer
					})...)
					_, x := c.since(begin)
					sum.hours += c.begin.Sub(begin).Hours() * float64(len(c.holdings))
					affected, away, needless = affected+len(leave), away+len(come), needless+x
				}
				soon := func(xs []time.Duration, limit time.Duration) (n float64) {
					for _, x := range xs {
						if x <= limit {
							n++
						}
					}
					return n
				}
				sum.affected, sum.away = sum.affected+affected, sum.away+away
				sum.moved += int(soon(left, 2*time.Minute))
				sum.returned, sum.needless = sum.returned+len(back), sum.needless+needless
				slices.Sort(left)
				slices.Sort(back)
				moved, returned := soon(left, 2*time.Minute)/float64(affected),
					float64(len(back))/float64(max(1, away))
				t.Logf("%d affected, %.0f %% moved in 2 min, %s; %d clearly better back, "+
					"%.0f %% returned in 8 min, %s; %d needless moves; "+
					"of %d that gain less than 40 %%, %d left in 3 min",
					affected, 100*moved, quantiles(left), away, 100*returned, quantiles(back),
					needless, fewer, fewerLeft)
				if affected < least || moved < want && affected >= 10 || moved < 0.5 {
					t.Errorf("%d affected, %.0f %% moved within two minutes, want %.0f %%",
						affected, 100*moved, 100*want)
				}
				if away > 3 && returned < 0.75 {
					t.Errorf("%.0f %% returned within eight minutes, want 75 %%", 100*returned)
				}
				if needless > 2 {
					t.Errorf("%d needless moves, want at most 2", needless)
				}
			})
		}
	}
}

// quantiles describes when half and nine tenths of the events had happened.
func quantiles(xs []time.Duration) string {
	if len(xs) == 0 {
		return "none"
	}
	return fmt.Sprintf("half of them by %v, 90 %% by %v", xs[(len(xs)-1)/2], xs[(len(xs)-1)*9/10])
}

// All servers become slow: no peer is at fault, and nothing moves because of it.
func TestAdaptIgnoresSlowServers(t *testing.T) {
	c := newColony(t, natures[0], 20, 4)
	c.run(5 * time.Minute)
	begin := c.begin
	c.slowness = 5000
	c.run(10 * time.Minute)
	c.slowness = 0
	c.run(10 * time.Minute)
	moves, needless := c.since(begin)
	t.Logf("%d moves, %d needless, of %d subnets in 20 min", moves, needless, len(c.holdings))
	if needless > 1 {
		t.Errorf("%d needless moves, want at most 1", needless)
	}
}
