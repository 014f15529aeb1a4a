package owner

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	"peerd/coords/assign"
	"peerd/overlay/ownership"
	"peerd/store"
)

func TestLeastVarianceGoesToTheNextBest(t *testing.T) {
	t.Parallel()
	b, now := newBalancer(), time.Unix(1e9, 0)
	loads := []assign.Load{
		{Subnet: subnetA, Size: 700, Probes: map[string]float64{"me": 10, "near": 20, "far": 300}},
		{Subnet: subnetB, Size: 700, Probes: map[string]float64{"me": 10, "near": 14, "far": 12}},
	}
	capacity := map[string]float64{"near": 5000, "far": 600}
	var out []assign.Release
	for range 40 {
		now = now.Add(measureEvery)
		b.observe(now, Limits{Pages: 1000}, 1400, 2)
		if out = b.decide(now, "me", loads, capacity); len(out) > 0 {
			break
		}
	}
	if len(out) != 1 || out[0] != (assign.Release{Subnet: subnetB, To: "near"}) {
		t.Fatalf("released %v, want %v to near: far has no capacity", out, subnetB)
	}
	b.gave(now, out[0], 700)
	if err := b.accept(now.Add(29*time.Minute), subnetB); !errors.Is(err, errCooldown) {
		t.Errorf("it comes back at once: %v", err)
	}
	if err := b.accept(now.Add(31*time.Minute), subnetB); err != nil {
		t.Errorf("it never comes back: %v", err)
	}
}

// Beacons are old: what was given to a peer since counts in the capacity it announced.
func TestAnnouncedCapacityIsUsedOnce(t *testing.T) {
	t.Parallel()
	b, now := newBalancer(), time.Unix(1e9, 0)
	probes := map[string]float64{"me": 10, "near": 20}
	loads := map[netip.Prefix]assign.Load{
		subnetA: {Subnet: subnetA, Size: 700, Probes: probes}, subnetB: {Subnet: subnetB, Size: 700,
			Probes: probes},
	}
	var gave []time.Time
	for range 60 {
		now = now.Add(measureEvery)
		b.observe(now, Limits{Pages: 100}, 700*float64(len(loads)), len(loads))
		for _, r := range b.decide(now, "me", slices.Collect(maps.Values(loads)),
			map[string]float64{"near": 1000}) {
			b.gave(now, r, 700)
			delete(loads, r.Subnet)
			gave = append(gave, now)
		}
	}
	if len(gave) != 2 || gave[1].Sub(gave[0]) < 5*time.Minute {
		t.Errorf("given at %v", gave)
	}
}

// What came a short time ago is not given on for load.
func TestWhatCameStaysForAWhile(t *testing.T) {
	t.Parallel()
	b, now := newBalancer(), time.Unix(1e9, 0)
	b.observe(now, Limits{Pages: 1000}, 500, 1)
	if err := b.accept(now, subnetA); err != nil {
		t.Fatal(err)
	}
	begin := now
	load := assign.Load{Subnet: subnetA, Size: 700, Probes: map[string]float64{"me": 10,
		"near": 20}}
	for now.Sub(begin) < time.Hour {
		now = now.Add(measureEvery)
		b.observe(now, Limits{Pages: 1000}, 5000, 2)
		if len(b.decide(now, "me", []assign.Load{load}, map[string]float64{"near": 1e6})) > 0 {
			break
		}
	}
	if d := now.Sub(begin); d < 29*time.Minute || d > 31*time.Minute {
		t.Errorf("given on after %v", d)
	}
}

// At the end of its hours a peer gives away what has work, to one that takes it.
func TestHoursEnd(t *testing.T) {
	t.Parallel()
	for name, closed := range map[string]bool{"successor open": false, "successor closed": true} {
		p := newPair(t, func(c *Config) {
			c.Limiter.(*limiter).limits = func(
				time.Time) Limits {
				return Limits{Closed: closed}
			}
		})
		m := p.owner
		m.Manager.cfg.Limiter.(*limiter).limits = func(time.Time) Limits {
			return Limits{Closed: true}
		}
		m.strategy.next = choose(alice)
		m.claim(subnetA)
		m.plant("a.test", subnetA, addrA, 7)
		m.frontier.load(subnetA, 7)
		m.claim(subnetB) // no work
		m.run()
		if closed {
			until(t, "the successor refuses", func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				s := m.subnets[subnetA]
				return s != nil && len(s.avoid) > 0 && s.unit.To == ""
			})
			if _, hold := m.placement.Where(subnetA); hold || !m.Live(subnetA) {
				t.Errorf("%s: not worked on any more", name)
			}
			continue
		}
		until(t, "it goes", func() bool {
			return !m.Live(subnetA) && p.successor.phase(subnetA) == store.PhaseOwned
		})
		if p.successor.queued("a.test") != 7 || !m.Live(subnetB) || m.Capacity() != 0 {
			t.Errorf("%s: %d URLs at successor, capacity %v", name, p.successor.queued("a.test"),
				m.Capacity())
		}
	}
}

// Of subnets that are decided, none goes to peers that take nothing; and what this
// peer has no capacity for goes to others.
func TestPeersAtCapacityAreNoCandidates(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = directory{alice, bob, carol}
		c.Limiter.(*limiter).limits = func(time.Time) Limits { return Limits{Closed: true} }
		c.Limiter.(*limiter).atCapacity = func(who string) bool { return who == bob.id.String() }
	})
	m.claim(subnetA)
	e := m.strategy.seen[len(m.strategy.seen)-1]
	if !e.Exclude[bob.id.String()] || !e.Exclude[alice.id.String()] ||
		e.Exclude[carol.id.String()] {
		t.Errorf("excluded: %v", e.Exclude)
	}
	all := m.candidates()
	if x := m.balance.closedTo(map[string]bool{carol.id.String(): true}, all,
		true); x[alice.id.String()] {
		t.Error("closedTo excluded all candidates")
	}
	if got := m.takers(); len(got) != 2 {
		t.Errorf("%d takers", len(got))
	}
}

// Overload gives a subnet to who has announced capacity.
func TestOverloadGivesAway(t *testing.T) {
	t.Parallel()
	m := join(t, alice, newDHT(), nil, func(c *Config) {
		c.Directory = fixedCapacities{directory{alice, bob, carol},
			map[string]float64{bob.id.String(): 0.01, carol.id.String(): 1}}
		c.Limiter.(*limiter).limits = func(time.Time) Limits { return Limits{Pages: 1000} }
		c.Gap = time.Second
	})
	m.claim(subnetA)
	m.plant("a.test", subnetA, addrA, 1)
	m.frontier.load(subnetA, 1_000_000) // 86,400 a day at a page a second
	begin := time.Now()
	for d := time.Duration(0); d < 10*time.Minute; d += measureEvery {
		m.balance.rebalance(begin.Add(d))
	}
	if s := m.subnets[subnetA]; s.unit.To != carol.id.String() ||
		s.unit.State != ownership.Copying ||
		len(s.watch.Moves) != 1 {
		t.Errorf("to %q: %s has no capacity for 86,400 pages a day", s.unit.To, bob.id)
	}
}

// fixedCapacities is a directory of peers with capacities.
type fixedCapacities struct {
	directory
	rooms map[string]float64
}

func (r fixedCapacities) Candidates() []assign.Candidate {
	all := r.directory.Candidates()
	for i := range all {
		all[i].Capacity = r.rooms[all[i].ID]
	}
	return all
}

func TestWhatIsAnnouncedAndRefused(t *testing.T) {
	t.Parallel()
	now := time.Unix(1e9, 0)
	for name, c := range map[string]struct {
		limits   Limits
		raw      float64
		capacity float64
		err      error
	}{
		"unbounded":     {Limits{}, 1e9, NominalPages, nil},
		"closed":        {Limits{Pages: 1000, Closed: true}, 0, 0, errClosed},
		"some capacity": {Limits{Pages: 1000}, 300, 500, nil},
		"just fits":     {Limits{Pages: 1000}, 900, 0, nil},
		"full":          {Limits{Pages: 1000}, 1000, 0, errNoCapacity},
		"only hours":    {Limits{Closed: true}, 0, 0, errClosed},
	} {
		b := newBalancer()
		b.observe(now, c.limits, c.raw, 10)
		if r := b.capacity(); r != c.capacity {
			t.Errorf("%s: capacity is %v, want %v", name, r, c.capacity)
		}
		if err := b.accept(now, subnetA); !errors.Is(err, c.err) {
			t.Errorf("%s: accept is %v, want %v", name, err, c.err)
		}
	}
	b := newBalancer()
	b.observe(now, Limits{Pages: 1000}, 900, 2)
	if err := b.accept(now, subnetA); err != nil {
		t.Fatal(err)
	}
	if err := b.accept(now, subnetB); !errors.Is(err, errNoCapacity) {
		t.Errorf("what was taken since the last look does not count: %v", err)
	}
	if err := b.accept(now, subnetA); err != nil {
		t.Errorf("an offer that was accepted is refused when it comes again: %v", err)
	}
}
