package owner

import (
	"slices"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/ownership"
)

// A subnet goes back to who had it first of those that take it, have capacity and are
// nearer; who takes some and is not nearer is no lender any more.
func TestLenderOf(t *testing.T) {
	t.Parallel()
	a, b, c := alice.id.String(), bob.id.String(), carol.id.String()
	at := func(x float64) coords.Coordinate {
		return coords.Coordinate{Vec: []float64{x, 0, 0}, Error: 0.1}
	}
	proxy := &coords.Proxy{At: at(0), Scale: 1, Samples: 3}
	times := func(here, there time.Duration) []coords.Sample {
		return []coords.Sample{{Peer: a, FirstByte: here}, {Peer: b, FirstByte: there},
			{Peer: b, Failed: true}}
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
		"nearer": {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}},
			proxy, nil, "", b, []string{b}},
		"not nearer": {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}},
			proxy, nil, "", "", []string{}},
		"has to wait": {[]string{b},
			[]assign.Candidate{{ID: b, At: at(50), Capacity: 1, Wait: time.Second}}, proxy, nil, "",
			"", []string{}},
		"closed": {[]string{b}, nil, proxy, nil, "", "", []string{b}},
		"no capacity": {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1e-5}},
			proxy, nil, "", "", []string{b}},
		"did not answer": {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}},
			proxy, nil, b, "", []string{b}},
		"the first": {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1},
			{ID: b, At: at(50), Capacity: 1}}, proxy, nil, "", b, []string{b, c}},
		"the second": {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1}},
			proxy, nil, "", c, []string{b, c}},
		"the first is far": {[]string{b, c}, []assign.Candidate{{ID: c, At: at(10), Capacity: 1},
			{ID: b, At: at(150), Capacity: 1}}, proxy, nil, "", c, []string{c}},
		"nothing is known": {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}},
			nil, nil, "", b, []string{b}},
		"measured, nearer": {[]string{b}, []assign.Candidate{{ID: b, At: at(150), Capacity: 1}},
			nil, times(80*time.Millisecond, 30*time.Millisecond), "", b, []string{b}},
		"measured, farther": {[]string{b}, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}},
			nil, times(30*time.Millisecond, 80*time.Millisecond), "", "", []string{}},
		"not lent": {nil, []assign.Candidate{{ID: b, At: at(50), Capacity: 1}}, proxy,
			nil, "", "", nil},
	} {
		m := join(t, alice, newDHT(), nil, func(c *Config) { c.Gap = time.Second })
		m.claim(subnetA)
		m.plant("a.test", subnetA, addrA, 1)
		m.frontier.load(subnetA, 50)
		s := m.subnets[subnetA]
		s.lenders, s.lease.Proxy, s.history = x.lenders, x.proxy, historyOf(x.samples)
		if x.avoid != "" {
			s.shun(x.avoid, time.Now())
		}
		all := append([]assign.Candidate{{ID: a, At: at(100), Capacity: 1}}, x.taking...)
		if got := m.balance.lenderOf(s, all, time.Now()); got != x.want ||
			!slices.Equal(s.lenders, x.left) {
			t.Errorf("%s: to %q, want %q; lenders %v, want %v", name, got, x.want, s.lenders,
				x.left)
		}
	}
}

// Who lent a subnet to whom travels with it and outlives a restart; at a lender it
// starts over, and junk is left out.
func TestLendersTravel(t *testing.T) {
	t.Parallel()
	a, b, c := alice.id.String(), bob.id.String(), carol.id.String()
	m := join(t, bob, newDHT(), nil, nil)
	m.claim(subnetA)
	s := m.subnets[subnetA]
	s.lenders, s.unit.Why = []string{a}, ownership.ReasonHours
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
	if got := lendersOf([]string{"", "junk", c, c, c, c, a}, b); len(got) != lendersKept ||
		got[lendersKept-1] != a {
		t.Errorf("junk: %v", got)
	}
}
