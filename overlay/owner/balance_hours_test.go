package owner

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// For some days the subnets of a peer wander with its hours: away while it is closed,
// back when it opens, those without work too; none moves more than twice a day.
func TestSubnetsWanderWithTheHours(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const each, days = 2, 2
		place := map[netip.Prefix]int{}
		x := func(p netip.Prefix) float64 { return float64(100 * place[p]) }
		strategy := func(c *Config) { c.Strategy = &script{next: nearestOpen(x)} }
		w := newTown(t, strategy, shift{someone: alice, from: 22, to: 6}, shift{someone: bob, from: 8, to: 20, x: 100}, shift{someone: carol, x: 200})
		w.announce()
		for i := range 3 * each {
			p := netip.PrefixFrom(netip.AddrFrom4([4]byte{198, 51, byte(i), 0}), 24)
			place[p] = i / each
		}
		stop := w.run()
		begin := func(home int) { // while its nearest peer is open
			for p, i := range place {
				if i == home {
					w.begin(carol, p)
					w.peers[carol.id.String()].Where(p)
				}
			}
		}
		begin(0)
		begin(2)
		w.pass(12 * time.Hour)
		begin(1)
		w.pass(12 * time.Hour)
		w.mu.Lock()
		clear(w.moves)
		w.mu.Unlock()

		for day := range days {
			for hour := range 24 {
				w.check(place, hour)
				if hour == 1 { // what is idle at noon must come back, too, at 22
					for p := range place {
						w.load(p, 50)
					}
				}
				if hour == 12 {
					for p := range place {
						if place[p] == 0 && p.Addr().As4()[2]%2 == 0 {
							w.load(p, 0)
						}
					}
				}
				w.pass(time.Hour)
			}
			w.mu.Lock()
			for p, at := range w.moves {
				if len(at) > 2*(day+1) {
					t.Errorf("%v moved %d times in %d days: %v", p, len(at), day+1, at)
				}
			}
			if n := len(slices.Concat(slices.Collect(maps.Values(w.moves))...)); n != 2*2*each*(day+1) {
				t.Errorf("%d moves in %d days, want %d", n, day+1, 2*2*each*(day+1))
			}
			w.mu.Unlock()
		}
		stop()
	})
}

// check holds the owners against the hours that have just begun: half an hour of
// each is for moving.
func (w *town) check(place map[netip.Prefix]int, hour int) {
	if hour == 6 || hour == 22 || hour == 8 || hour == 20 {
		return
	}
	for p, i := range place {
		who, home := w.holder(p), w.shifts[i]
		switch {
		case !home.closed(time.Now()) && who != home.id:
			w.t.Errorf("%v: %v is at %s, its home %s is open", time.Now(), p, who, home.id)
		case home.closed(time.Now()) && who == home.id:
			w.t.Errorf("%v: %v is still at %s", time.Now(), p, who)
		}
	}
}

// A subnet goes back to who had it first of those that take it, have room and are
// nearer; who takes some and is not nearer is no lender any more.
func TestWhoHasItBack(t *testing.T) {
	a, b, c := alice.id.String(), bob.id.String(), carol.id.String()
	at := func(x float64) coords.Coordinate { return coords.Coordinate{Vec: []float64{x, 0, 0}, Error: 0.1} }
	proxy := &coords.Proxy{At: at(0), Scale: 1, Samples: 3}
	times := func(here, there time.Duration) []coords.Sample {
		return []coords.Sample{{Peer: a, FirstByte: here}, {Peer: b, FirstByte: there}, {Peer: b, Failed: true}}
	}
	for name, x := range map[string]struct {
		lenders []string
		taking  []assign.Candidate // besides alice, who owns it and is at 100
		proxy   *coords.Proxy
		samples []coords.Sample
		avoid   string
		want    string
		left    []string
	}{
		"nearer":             {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}}, proxy, nil, "", b, []string{b}},
		"not nearer":         {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}}, proxy, nil, "", "", []string{}},
		"has to wait":        {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1, Wait: time.Second}}, proxy, nil, "", "", []string{}},
		"closed":             {[]string{b}, nil, proxy, nil, "", "", []string{b}},
		"no room":            {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1e-5}}, proxy, nil, "", "", []string{b}},
		"did not answer":     {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}}, proxy, nil, b, "", []string{b}},
		"the first":          {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1}, {ID: b, At: at(50), Capacity: 1}}, proxy, nil, "", b, []string{b, c}},
		"the second":         {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1}}, proxy, nil, "", c, []string{b, c}},
		"the first is far":   {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1}, {ID: b, At: at(150), Capacity: 1}}, proxy, nil, "", c, []string{c}},
		"nothing is known":   {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}}, nil, nil, "", b, []string{b}},
		"measured, nearer":   {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}}, nil, times(80, 30), "", b, []string{b}},
		"measured, farther":  {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}}, nil, times(30, 80), "", "", []string{}},
		"nobody lent it out": {nil, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}}, proxy, nil, "", "", nil},
	} {
		m := join(t, alice, newDHT(), nil, func(c *Config) { c.Gap = time.Second })
		m.claim(subnetA)
		m.plant("a.test", subnetA, addrA, 1)
		m.frontier.load(subnetA, 50)
		s := m.subnets[subnetA]
		s.lenders, s.lease.Proxy, s.samples = x.lenders, x.proxy, x.samples
		if x.avoid != "" {
			s.shun(x.avoid, time.Now())
		}
		all := append([]assign.Candidate{{ID: a, At: at(100), Capacity: 1}}, x.taking...)
		if got := m.lenderOf(s, all, time.Now()); got != x.want || !slices.Equal(s.lenders, x.left) {
			t.Errorf("%s: to %q, want %q; lenders %v, want %v", name, got, x.want, s.lenders, x.left)
		}
	}
}

// Who lent a subnet to whom travels with it and outlives a restart; at a lender it
// begins anew, and junk is left out.
func TestLendersTravel(t *testing.T) {
	a, b, c := alice.id.String(), bob.id.String(), carol.id.String()
	m := join(t, bob, newDHT(), nil, nil)
	m.claim(subnetA)
	s := m.subnets[subnetA]
	s.lenders, s.lends = []string{a}, true
	rec, err := s.record()
	if err != nil {
		t.Fatal(err)
	}
	e := openEvidence(rec.Evidence).shifted(time.Now())
	if !slices.Equal(e.Lenders, []string{a, b}) {
		t.Errorf("with it go %v", e.Lenders)
	}
	for self, want := range map[string][]string{c: {a, b}, b: {a}, a: {}} {
		if got := lendersOf(e.Lenders, self); !slices.Equal(got, want) {
			t.Errorf("at %s: %v, want %v", self, got, want)
		}
	}
	if back, err := fromRecord(rec); err != nil || !slices.Equal(back.lenders, []string{a}) {
		t.Errorf("after a restart: %v, %v", back.lenders, err)
	}
	if got := lendersOf([]string{"", "junk", c, c, c, c, a}, b); len(got) != lendersKept || got[lendersKept-1] != a {
		t.Errorf("junk: %v", got)
	}
}
