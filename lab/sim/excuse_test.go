package sim

import (
	"net/netip"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// past is a constructed history of one subnet. Times are in seconds since the crawl was
// seeded.
type past struct {
	*world
	site netip.Addr
}

func newPast() past {
	w := &world{seeded: time.Now()}
	w.terms = map[string][]*term{}
	return past{w, netip.MustParseAddr("127.80.3.10")}
}

func sec(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// held adds a term of a peer.
func (p past) held(peer int, epoch uint64, from, to float64, replicas ...int) past {
	p.terms["127.80.3.0/24"] = append(p.terms["127.80.3.0/24"], &term{sec(from), sec(to), peer,
		epoch, replicas})
	return p
}

func (p past) twice(begin, end, again float64, a, b int) Repeat {
	hit := func(from, to float64) web.Hit {
		return web.Hit{Addr: p.site, Start: p.seeded.Add(sec(from)), End: p.seeded.Add(sec(to))}
	}
	return Repeat{First: hit(begin, end), Second: hit(again, again), A: a, B: b}
}

func fault(k Kind, from, to float64, peers ...int) Fault {
	return Fault{Kind: k, At: sec(from), For: sec(to - from), Peers: peers}
}

// TestExcuses checks which faults excuse a second fetch. Peer 1 fetches for itself
// unless the case says otherwise.
func TestExcuses(t *testing.T) {
	alone := func() past { return newPast().held(1, 1, 0, 300) }
	// Peer 1 owns the subnet until last, then peer 2.
	taken := func(last, from float64, replicas ...int) past {
		return newPast().held(1, 1, 0, last, replicas...).held(2, 2, from, 300)
	}
	for _, c := range []struct {
		name string
		p    past
		x    [5]float64 // begin, end, time of the second fetch, the two peers
		want string
		s    []Fault
	}{
		{"killed during the fetch", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "in flight, kill",
			[]Fault{fault(Kill, 10, 12, 1)}},
		{"killed before it stored the page", alone(), [5]float64{9, 9.1, 13, 1, 1},
			"in flight, kill", []Fault{fault(Kill, 10, 12, 1)}},
		{"killed much later", alone(), [5]float64{9, 9.1, 23, 1, 1}, "",
			[]Fault{fault(Kill, 20, 22, 1)}},
		{"killed before", alone(), [5]float64{9, 9.1, 23, 1, 1}, "", []Fault{fault(Kill, 3, 4, 1)}},
		{"killed after it sent the request", alone(), [5]float64{9, 9.1, 23, 1, 1},
			"in flight, kill", []Fault{fault(Kill, 8.9, 12, 1)}},
		{"owner killed after it requested the page", alone(),
			[5]float64{9, 9.1, 23, 4, 1}, "in flight, kill", []Fault{fault(Kill, 1, 12, 1)}},
		{"another peer killed", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "",
			[]Fault{fault(Kill, 10, 12, 3)}},
		{"fetched again before the kill", alone(), [5]float64{9, 9.1, 9.4, 1, 1}, "",
			[]Fault{fault(Kill, 9.5, 12, 1)}},
		{"not synced", alone(), [5]float64{9, 9.1, 23, 1, 1}, "not synced, power",
			[]Fault{fault(Power, 20, 22, 1)}},
		{"synced long before", alone(), [5]float64{9, 9.1, 63, 1, 1}, "",
			[]Fault{fault(Power, 60, 62, 1)}},
		{"not synced at another peer", alone(), [5]float64{9, 9.1, 23, 1, 1}, "",
			[]Fault{fault(Power, 20, 22, 2)}},
		{"answer lost", alone(), [5]float64{9, 9.1, 12, 3, 1}, "in flight, drop",
			[]Fault{fault(Drop, 9.05, 9.05, 3)}},
		{"answer of the site lost", alone(), [5]float64{9, 9.1, 12, 1, 1}, "in flight, drop",
			[]Fault{fault(Drop, 9.05, 9.05, 1)}},
		{"fetching owner knows the page", alone(), [5]float64{9, 9.1, 23, 1, 1}, "",
			[]Fault{fault(Drop, 12, 12, 1)}},

		{"taken over by an uninformed replica", taken(20, 50, 2), [5]float64{9, 9.1, 53, 1, 2},
			"at no reachable replica, loss", []Fault{fault(Loss, 20, 20, 1)}},
		{"fetched by another peer for the owner", taken(20, 50, 2), [5]float64{9, 9.1, 53, 4, 2},
			"at no reachable replica, loss", []Fault{fault(Loss, 20, 20, 1)}},
		{"taken over, replica must know", taken(60, 90, 2),
			[5]float64{9, 9.1, 93, 1, 2}, "", []Fault{fault(Loss, 60, 60, 1)}},
		{"never had a replica", taken(60, 250), [5]float64{9, 9.1, 253, 1, 2},
			"at no reachable replica, loss", []Fault{fault(Loss, 60, 60, 1)}},
		{"replica paused all the time", taken(60, 250, 3), [5]float64{9, 9.1, 253, 1, 2},
			"at no reachable replica, loss",
			[]Fault{fault(Pause, 5, 61, 3), fault(Loss, 60, 60, 1)}},
		{"informed replica killed too", taken(60, 250, 3), [5]float64{9, 9.1, 253, 1, 2},
			"at no reachable replica, loss",
			[]Fault{fault(Loss, 60, 60, 1), fault(Kill, 70, 80, 3)}},
		{"another peer took over despite an informed replica", taken(60, 90, 3),
			[5]float64{9, 9.1, 93, 1, 2}, "", []Fault{fault(Loss, 60, 60, 1)}},
		{"taken over without a fault", taken(60, 90, 3),
			[5]float64{9, 9.1, 93, 1, 2}, "", nil},
		{"handed over at once, then lost without a replica",
			newPast().held(1, 1, 0, 11).held(2, 2, 11, 60).held(3, 3, 250, 300),
			[5]float64{9, 9.1, 253, 1, 3}, "at no reachable replica, loss",
			[]Fault{fault(Loss, 60, 60, 2)}},
		{"handed over, then killed", taken(30, 31), [5]float64{9, 9.1, 93, 1, 2}, "",
			[]Fault{fault(Loss, 60, 60, 1)}},

		{"apart", taken(300, 28, 2), [5]float64{21, 21.1, 30, 1, 2}, "apart, split",
			[]Fault{fault(Split, 20, 22, 1)}},
		{"together on one side of a split", taken(300, 28, 2), [5]float64{21, 21.1, 30, 1, 2}, "",
			[]Fault{fault(Split, 20, 22, 1, 2)}},
		{"healed long before", alone(), [5]float64{200, 201, 202, 1, 2}, "",
			[]Fault{fault(Split, 20, 22, 1)}},
		{"recreated by the owner, which lost its disk, without its replica",
			newPast().held(1, 1, 0, 60, 2).held(1, 1, 200, 300), [5]float64{9, 9.1, 220, 1, 1},
			"at no reachable replica, wiped",
			[]Fault{fault(Split, 55, 250, 2), fault(Wiped, 60, 90, 1)}},
		{"recreated by the owner beside its replica",
			newPast().held(1, 1, 0, 60, 2).held(1, 1, 200, 300), [5]float64{9, 9.1, 220, 1, 1}, "",
			[]Fault{fault(Wiped, 60, 90, 1)}},
		{"claimed twice while a part was cut off", newPast().held(1, 1, 18, 25).held(2, 1, 30, 300),
			[5]float64{24, 24.1, 40, 5, 2}, "claimed twice, split",
			[]Fault{fault(Split, 5, 200, 6)}},
		{"claimed twice and given on at one side",
			newPast().held(1, 1, 18, 240).held(2, 1, 30, 50).held(3, 2, 50, 400),
			[5]float64{60, 60.1, 380, 1, 3}, "claimed twice, split",
			[]Fault{fault(Split, 5, 200, 1)}},
		{"claimed twice without a fault", newPast().held(1, 1, 18, 25).held(2, 1, 30, 300),
			[5]float64{24, 24.1, 40, 5, 2}, "", nil},
		{"handed over at one side and recreated at the other",
			newPast().held(1, 1, 0, 72).held(4, 2, 72, 400).held(2, 2, 250, 270),
			[5]float64{35, 35.1, 260, 1, 3}, "at no reachable replica, long-split",
			[]Fault{fault(LongSplit, 70, 350, 1, 4)}},
		{"handed over at one side and taken over by a replica that must know",
			newPast().held(1, 1, 0, 72, 2).held(4, 2, 72, 400).held(2, 2, 95, 270),
			[5]float64{35, 35.1, 110, 1, 3}, "",
			[]Fault{fault(LongSplit, 70, 350, 1, 4)}},
		{"the server went silent", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "in flight, move",
			[]Fault{{Kind: Move, At: sec(4), For: sec(6)}}},
		{"another server went silent", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "",
			[]Fault{{Kind: Move, At: sec(4), For: sec(6), Sites: [2]int{1, 0}}}},
		{"the server went silent later", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "",
			[]Fault{{Kind: Move, At: sec(4), For: sec(12)}}},
		{"a clean leave", taken(30, 31, 2), [5]float64{29, 29.1, 40, 1, 2}, "",
			[]Fault{fault(Leave, 29, 60, 1)}},
	} {
		got := c.p.excuse(Schedule{Faults: c.s}, c.p.twice(c.x[0], c.x[1], c.x[2], int(c.x[3]),
			int(c.x[4])))
		if got != c.want {
			t.Errorf("%s: excuse = %q, want %q", c.name, got, c.want)
		}
	}
}

// TestKnowledgeOfMovedHosts checks whether the dead owner of a host that has moved could have
// passed on what it knew.
func TestKnowledgeOfMovedHosts(t *testing.T) {
	lost := Schedule{Faults: []Fault{fault(Loss, 60, 60, 1)}}
	for _, c := range []struct {
		what  string
		p     past
		moved bool
		want  string
	}{
		{"moved", newPast().held(1, 1, 0, 60), true, "at no reachable replica, loss"},
		{"not moved", newPast().held(1, 1, 0, 60), false, ""},
		{"a replica knows", newPast().held(1, 1, 0, 60, 2), true, ""},
	} {
		got := c.p.knowledgeLost(lost, "127.80.3.0/24", sec(9), sec(400), 1, c.moved)
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}

// TestEpochs checks which epochs of requests are violations.
func TestEpochs(t *testing.T) {
	type at struct {
		s     float64
		peer  int
		epoch uint64
	}
	for _, c := range []struct {
		name string
		asks []at
		s    []Fault
		bad  int
	}{
		{"one after the other", []at{{1, 1, 1}, {2, 1, 1}, {3, 2, 2}}, nil, 0},
		{"two under one epoch", []at{{1, 1, 1}, {2, 2, 1}}, nil, 1},
		{"back to a lower epoch", []at{{1, 1, 1}, {2, 2, 2}, {3, 1, 1}}, nil, 1},
		{"during a split", []at{{1, 1, 1}, {2, 2, 2}, {3, 1, 1}},
			[]Fault{fault(Split, 0, 5, 1)}, 0},
		{"long after a split", []at{{190, 1, 1}, {191, 2, 2}, {192, 1, 1}},
			[]Fault{fault(Split, 0, 5, 1)}, 1},
		{"a kill is no excuse", []at{{1, 1, 1}, {2, 2, 1}}, []Fault{fault(Kill, 0, 5, 1)}, 1},
	} {
		w := &world{}
		w.begin = time.Now()
		w.seeded = w.begin.Add(10 * time.Second)
		for _, a := range c.asks {
			w.requests = append(w.requests, request{at: sec(10 + a.s), subnet: "127.80.3.0/24",
				peer: a.peer, epoch: a.epoch})
		}
		n := 0
		w.judgeEpochs(Schedule{Faults: c.s}, func(string, ...any) { n++ })
		if n != c.bad {
			t.Errorf("%s: %d violations, want %d", c.name, n, c.bad)
		}
	}
}
