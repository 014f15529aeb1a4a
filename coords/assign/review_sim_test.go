package assign_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/coords/coordstest"
)

// colony simulates the owners of many subnets: each fetches page after page, and
// adapts as peers do. Time is the simulation's.
type colony struct {
	t        *testing.T
	cfg      assign.WatchConfig
	strategy *assign.ProxyStrategy
	swarm    *coordstest.Swarm
	rng      *rand.Rand
	peers    int
	begin    time.Time
	holdings []*holding

	nature nature
	perKB  []float64 // of each peer, ms
	lag    []float64 // of each peer, ms on top of each round trip
	mood   float64   // of all servers, ms
}

// holding is one subnet.
type holding struct {
	server  coordstest.Server
	prefix  netip.Prefix
	owner   int
	at      time.Time
	watch   assign.Watch
	samples []coords.Sample
	scouts  int
	pages   int
	moody   float64     // logarithm of what the server adds for all, by spells
	drifts  []float64   // the same for each peer
	hurt    []time.Time // until when each peer suffers a short load
	moves   []assignedMove
}

// nature is what is particular about a simulated world. The zero nature has noisy
// pages, a second apart, and nothing else.
type nature struct {
	name   string
	peers  int
	gap    time.Duration // between two pages, beside their time
	twins  bool          // each peer has one at the same place, 4 % slower
	tails  bool          // one page in eight is late, by as much again or far more
	spells bool          // servers, paths and peers have moods of a minute; none is the truth
}

type assignedMove struct {
	at       time.Time
	from, to int
	needless bool
}

func newColony(t *testing.T, n nature, subnets int, seed uint64) *colony {
	t.Helper()
	peers := n.peers
	if n.gap == 0 {
		n.gap = time.Second
	}
	rng := rand.New(rand.NewPCG(seed, 11))
	w := coordstest.Globe(peers+subnets, rng)
	tr := newTrial(t, w, peers, 20, min(6, peers-1), rng)
	c := &colony{
		t: t, nature: n, cfg: assign.DefaultWatch(), strategy: newProxy(t), swarm: tr.swarm, rng: rng, peers: peers,
		begin: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC), lag: make([]float64, peers),
	}
	for range peers {
		c.perKB = append(c.perKB, math.Exp(rng.NormFloat64()*0.5)*4) // 250 kB/s or so
	}
	if n.twins {
		for i := 1; i < peers; i += 2 {
			c.perKB[i] = c.perKB[i-1] * 1.04
		}
	}
	for i := range subnets {
		h := &holding{
			drifts: make([]float64, peers), hurt: make([]time.Time, peers),
			server: coordstest.NewServer(peers+i, rng), at: c.begin.Add(time.Duration(rng.IntN(1000)) * time.Millisecond),
			prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(18 + i>>8), byte(i), 0}), 24),
		}
		c.holdings = append(c.holdings, h)
		c.decide(h)
	}
	return c
}

// truth is the mean time of a page of a peer, ms.
func (c *colony) truth(h *holding, peer int) float64 {
	return c.swarm.World.Time(c.place(peer), h.server) + c.lag[peer] + c.mood + c.perKB[peer]*simKB
}

// place is where a peer is.
func (c *colony) place(peer int) int {
	if c.nature.twins {
		return peer &^ 1
	}
	return peer
}

// age lets the moods of a subnet's servers, paths and peers drift.
func (c *colony) age(h *holding, d time.Duration) {
	if !c.nature.spells {
		return
	}
	keep := math.Exp(-d.Minutes())
	next := func(x, sigma float64) float64 {
		return keep*x + math.Sqrt(1-keep*keep)*sigma*c.rng.NormFloat64()
	}
	h.moody = next(h.moody, 0.3)
	for i := range h.drifts {
		h.drifts[i] = next(h.drifts[i], 0.1)
		if c.rng.Float64() < d.Minutes()/5 {
			h.hurt[i] = h.at.Add(20 * time.Second)
		}
	}
}

const simKB = 12.5 // mean size of a page

// download is one page, noisy: sizes log-normal, the server's delay differs by page,
// round trips jitter, and one in fifty is a second late.
func (c *colony) download(h *holding, peer int) coords.Sample {
	s := c.swarm.World.Download(c.place(peer), coordstest.Name(peer), c.swarm.Peers[peer].Coordinate(), h.server, c.rng)
	kb := min(max(9*math.Exp(0.8*c.rng.NormFloat64()), 2), 60)
	dur := func(x float64) time.Duration { return time.Duration(x * float64(time.Millisecond)) }
	s.FirstByte += dur(c.lag[peer]*(0.7+0.6*c.rng.Float64()) + c.mood*(0.8+0.4*c.rng.Float64()))
	s.Body += dur(c.perKB[peer] * kb * (0.9 + 0.2*c.rng.Float64()))
	s.Bytes = int64(kb * 1000)
	if c.rng.IntN(50) == 0 {
		s.FirstByte += time.Second
	}
	if c.nature.tails && c.rng.IntN(8) == 0 {
		s.FirstByte += dur(1000 * s.FirstByte.Seconds() / math.Pow(1-c.rng.Float64(), 0.8))
	}
	if c.nature.spells {
		if h.at.Before(h.hurt[peer]) {
			s.FirstByte += dur(150)
		}
		f := math.Exp(h.moody + h.drifts[peer])
		s.FirstByte, s.Body = time.Duration(float64(s.FirstByte)*f), time.Duration(float64(s.Body)*f)
	}
	s.Taken = h.at
	return s
}

func (c *colony) evidence(h *holding) assign.Evidence {
	e := assign.Evidence{Subnet: h.prefix, Self: coordstest.Name(h.owner), Samples: h.samples, CanProbe: true, Now: h.at}
	for i, p := range c.swarm.Peers[:c.peers] {
		e.Candidates = append(e.Candidates, assign.Candidate{ID: coordstest.Name(i), At: p.Coordinate()})
	}
	return e
}

func (c *colony) index(name string) int {
	for i := range c.peers {
		if coordstest.Name(i) == name {
			return i
		}
	}
	c.t.Fatalf("%q is no peer", name)
	return -1
}

// fetch lets a peer fetch a page and takes its time.
func (c *colony) fetch(h *holding, peer int) {
	s := c.download(h, peer)
	took := s.FirstByte + s.Body + c.nature.gap
	h.at = h.at.Add(took)
	c.age(h, took)
	s.Taken = h.at.Add(-c.nature.gap)
	if h.samples = append(h.samples, s); len(h.samples) > 120 {
		h.samples = assign.History(h.samples, coordstest.Name(h.owner), 96)
	}
	h.pages++
}

func (c *colony) decide(h *holding) {
	for {
		step, err := c.strategy.Next(c.evidence(h))
		if err != nil {
			c.t.Fatal(err)
		}
		if step.Choice != "" {
			h.owner = c.index(step.Choice)
			return
		}
		c.fetch(h, c.index(step.Probe))
	}
}

// run lets time pass, for all subnets.
func (c *colony) run(d time.Duration) {
	c.begin = c.begin.Add(d)
	for _, h := range c.holdings {
		for h.at.Before(c.begin) {
			c.step(h)
		}
	}
}

func (c *colony) step(h *holding) {
	who := h.owner
	if id := h.watch.Scout(h.at); id != "" {
		who = c.index(id)
		h.scouts++
	}
	c.fetch(h, who)
	h.watch.Page()
	if !h.watch.Due(h.at) {
		return
	}
	e := c.evidence(h)
	e.CanProbe = h.watch.CanScout(c.cfg, h.at)
	r, err := c.strategy.Review(e)
	if err != nil {
		c.t.Fatal(err)
	}
	if to := h.watch.Reviewed(c.cfg, e.Self, r, h.samples, h.at, c.rng.Float64()); to != "" {
		next := c.index(to)
		h.moves = append(h.moves, assignedMove{h.at, h.owner, next, c.truth(h, next) > 0.9*c.truth(h, h.owner)})
		h.watch.Moved(h.at)
		h.watch = assign.Watch{Moves: h.watch.Moves}
		h.owner = next
		h.at = h.at.Add(2 * time.Second)
	}
}

// since counts the moves after a time.
func (c *colony) since(at time.Time) (moves, needless int) {
	for _, h := range c.holdings {
		for _, m := range h.moves {
			if m.at.After(at) {
				moves++
				if m.needless {
					needless++
				}
			}
		}
	}
	return moves, needless
}

// busiest is the peer with the most subnets.
func (c *colony) busiest() int {
	n := make([]int, c.peers)
	for _, h := range c.holdings {
		n[h.owner]++
	}
	return slices.Index(n, slices.Max(n))
}

// best is the time of the fastest peer.
func (c *colony) best(h *holding) float64 {
	best := math.Inf(1)
	for i := range c.peers {
		best = min(best, c.truth(h, i))
	}
	return best
}

// follow lets time pass, and returns after how long each of the subnets that
// fulfil a condition by then did so first.
func (c *colony) follow(hs []*holding, limit time.Duration, done func(*holding) bool) (took []time.Duration) {
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
	{name: "16 peers, twins, tails and spells, a page each 4 s", peers: 16, gap: 4 * time.Second, twins: true, tails: true, spells: true},
}

// adaptHours is how long each of the subnets is watched in the long form of a
// test; ok is false in the short one. PEERD_ADAPT_SEED is another seed.
func adaptHours() (hours float64, seed uint64, ok bool) {
	hours, err := strconv.ParseFloat(os.Getenv("PEERD_ADAPT_HOURS"), 64)
	seed, _ = strconv.ParseUint(os.Getenv("PEERD_ADAPT_SEED"), 10, 64)
	return hours, seed, err == nil
}

// Nothing changes: nothing must move but what was decided wrongly at first.
// PEERD_ADAPT_HOURS is how long each of 20 subnets is watched; the figures of
// some hours are in DESIGN.md.
func TestAdaptNoFlapping(t *testing.T) {
	hours, seed, long := adaptHours()
	for i, n := range natures {
		if !long {
			if i%4 != 0 {
				continue
			}
			hours = 0.05
		}
		t.Run(n.name, func(t *testing.T) {
			c := newColony(t, n, 20, seed+uint64(i))
			c.run(10 * time.Minute) // corrections of the first decision
			settled := c.begin
			early, wrong := c.since(time.Time{})
			c.run(time.Duration(hours * float64(time.Hour)))
			moves, needless := c.since(settled)
			total := float64(len(c.holdings)) * hours
			scouts, pages, excess := 0, 0, 0.0
			for _, h := range c.holdings {
				scouts += h.scouts
				pages += h.pages
				excess += c.truth(h, h.owner)/c.best(h) - 1
			}
			share := float64(scouts) / float64(pages)
			t.Logf("%.0f subnet-hours: %d moves (%d needless) in the first 10 min, %d after, %d needless: %.2f per 100 subnet-hours; scouts %.1f %% of pages; owner/best %.3f",
				total, early, wrong, moves, needless, 100*float64(needless)/total, 100*share, 1+excess/float64(len(c.holdings)))
			if rate := 100 * float64(needless) / total; rate > 1 && needless > 1 {
				t.Errorf("%.2f needless moves per 100 subnet-hours, want at most 1", rate)
			}
			// 3 % and the 24 that each subnet begins with; more for ten minutes after a move.
			if share > 0.035+24*float64(len(c.holdings))/float64(pages) {
				t.Errorf("scouts fetched %.1f %% of the pages", 100*share)
			}
		})
	}
}

// affectedBy is the share of the owner's time that another peer takes for a subnet
// to count as affected: pages here scatter by 40 %, and to prove less of a gain takes
// more pages of scouts than are spared for it in two minutes.
const affectedBy = 0.6

// A peer becomes slow and recovers: its subnets leave it and come back.
func TestAdaptFollowsAPeer(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation in one goroutine")
	}
	_, first, long := adaptHours()
	worlds, seeds, subnets, least, want := []nature{natures[0]}, uint64(1), 40, 3, 0.6 // a taste
	if long {
		worlds, seeds, want = natures, 3, 0.9
	}
	for _, n := range worlds {
		for _, tc := range []struct {
			name        string
			slow, again func(c *colony, peer int)
		}{
			{"bandwidth a fifth", func(c *colony, p int) { c.perKB[p] *= 5 }, func(c *colony, p int) { c.perKB[p] /= 5 }},
			{"load", func(c *colony, p int) { c.lag[p] = 400 }, func(c *colony, p int) { c.lag[p] = 0 }},
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
					left = append(left, c.follow(leave, 3*time.Minute, func(h *holding) bool { return h.owner != peer })...)
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
					back = append(back, c.follow(come, 8*time.Minute, func(h *holding) bool { return h.owner == peer })...)
					_, x := c.since(begin)
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
				slices.Sort(left)
				slices.Sort(back)
				moved, returned := soon(left, 2*time.Minute)/float64(affected), float64(len(back))/float64(max(1, away))
				t.Logf("%d affected, %.0f %% moved in 2 min, %s; %d clearly better back, %.0f %% returned in 8 min, %s; %d needless moves; of %d that gain less than 40 %%, %d left in 3 min",
					affected, 100*moved, quantiles(left), away, 100*returned, quantiles(back), needless, fewer, fewerLeft)
				if affected < least || moved < want && affected >= 10 || moved < 0.5 {
					t.Errorf("want %.0f %% of the affected moved within two minutes", 100*want)
				}
				if away > 3 && returned < 0.75 {
					t.Error("want 75 % returned within eight minutes")
				}
				if needless > 2 {
					t.Error("want hardly any needless move")
				}
			})
		}
	}
}

// quantiles says when half and nine tenths of those that did so had done something.
func quantiles(xs []time.Duration) string {
	if len(xs) == 0 {
		return "none"
	}
	return fmt.Sprintf("half of them by %v, 90 %% by %v", xs[(len(xs)-1)/2], xs[(len(xs)-1)*9/10])
}

// All servers become slow: no peer is to blame, and nothing moves for it.
func TestAdaptLeavesServersMoods(t *testing.T) {
	if testing.Short() {
		t.Skip("a simulation in one goroutine")
	}
	c := newColony(t, natures[0], 20, 4)
	c.run(5 * time.Minute)
	begin := c.begin
	c.mood = 5000
	c.run(10 * time.Minute)
	c.mood = 0
	c.run(10 * time.Minute)
	moves, needless := c.since(begin)
	t.Logf("%d moves, %d needless, of %d subnets in 20 min", moves, needless, len(c.holdings))
	if needless > 1 {
		t.Error("want at most one needless")
	}
}
