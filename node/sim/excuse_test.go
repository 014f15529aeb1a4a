package sim

import (
	"net/netip"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// past is a history of one subnet, made by hand. Times are in seconds since the crawl
// was seeded.
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

// held says that a peer held the subnet from one time to another.
func (p past) held(peer int, epoch uint64, from, to float64, shadows ...int) past {
	p.terms["127.80.3.0/24"] = append(p.terms["127.80.3.0/24"], &term{sec(from), sec(to), peer, epoch, shadows})
	return p
}

func (p past) twice(begin, end, again float64, a, b int) Twice {
	hit := func(from, to float64) web.Hit {
		return web.Hit{Addr: p.site, Start: p.seeded.Add(sec(from)), End: p.seeded.Add(sec(to))}
	}
	return Twice{First: hit(begin, end), Second: hit(again, again), A: a, B: b}
}

func fault(k Kind, from, to float64, peers ...int) Fault {
	return Fault{Kind: k, At: sec(from), For: sec(to - from), Peers: peers}
}

// TestExcuses holds the judge against faults that excuse a second fetch and faults that
// do not. Peer 1 fetches for itself where nothing else is said.
func TestExcuses(t *testing.T) {
	alone := func() past { return newPast().held(1, 1, 0, 300) }
	// Peer 1 until its last look, then peer 2.
	taken := func(last, from float64, shadows ...int) past {
		return newPast().held(1, 1, 0, last, shadows...).held(2, 2, from, 300)
	}
	for _, c := range []struct {
		name string
		p    past
		x    [5]float64 // begin, end, again, by whom
		want string
		s    []Fault
	}{
		{"killed while it fetched", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "in flight, kill", []Fault{fault(Kill, 10, 12, 1)}},
		{"killed before it had written it down", alone(), [5]float64{9, 9.1, 13, 1, 1}, "in flight, kill", []Fault{fault(Kill, 10, 12, 1)}},
		{"killed much later", alone(), [5]float64{9, 9.1, 23, 1, 1}, "", []Fault{fault(Kill, 20, 22, 1)}},
		{"killed before", alone(), [5]float64{9, 9.1, 23, 1, 1}, "", []Fault{fault(Kill, 3, 4, 1)}},
		{"killed when it had asked", alone(), [5]float64{9, 9.1, 23, 1, 1}, "in flight, kill", []Fault{fault(Kill, 8.9, 12, 1)}},
		{"its owner killed when it had asked for it", alone(), [5]float64{9, 9.1, 23, 4, 1}, "in flight, kill", []Fault{fault(Kill, 1, 12, 1)}},
		{"somebody else was killed", alone(), [5]float64{9.9, 10.1, 13, 1, 1}, "", []Fault{fault(Kill, 10, 12, 3)}},
		{"fetched again before the kill", alone(), [5]float64{9, 9.1, 9.4, 1, 1}, "", []Fault{fault(Kill, 9.5, 12, 1)}},
		{"not synced", alone(), [5]float64{9, 9.1, 23, 1, 1}, "not synced, power", []Fault{fault(Power, 20, 22, 1)}},
		{"long synced", alone(), [5]float64{9, 9.1, 63, 1, 1}, "", []Fault{fault(Power, 60, 62, 1)}},
		{"not synced at another peer", alone(), [5]float64{9, 9.1, 23, 1, 1}, "", []Fault{fault(Power, 20, 22, 2)}},
		{"the answer was lost", alone(), [5]float64{9, 9.1, 12, 3, 1}, "in flight, drop", []Fault{fault(Drop, 9.05, 9.05, 3)}},
		{"the page's own fetcher knows", alone(), [5]float64{9, 9.1, 12, 1, 1}, "", []Fault{fault(Drop, 9.05, 9.05, 1)}},

		{"taken over, and the shadow had not heard", taken(20, 50, 2), [5]float64{9, 9.1, 53, 1, 2},
			"at no shadow in reach, loss", []Fault{fault(Loss, 20, 20, 1)}},
		{"of the owner's, fetched by another", taken(20, 50, 2), [5]float64{9, 9.1, 53, 4, 2},
			"at no shadow in reach, loss", []Fault{fault(Loss, 20, 20, 1)}},
		{"taken over, and the shadow should have heard", taken(60, 90, 2), [5]float64{9, 9.1, 93, 1, 2}, "", []Fault{fault(Loss, 60, 60, 1)}},
		{"there was no shadow all the time", taken(60, 250), [5]float64{9, 9.1, 253, 1, 2}, "at no shadow in reach, loss", []Fault{fault(Loss, 60, 60, 1)}},
		{"the shadow was paused all the time", taken(60, 250, 3), [5]float64{9, 9.1, 253, 1, 2},
			"at no shadow in reach, loss", []Fault{fault(Pause, 5, 61, 3), fault(Loss, 60, 60, 1)}},
		{"the shadow knew, and was killed too", taken(60, 250, 3), [5]float64{9, 9.1, 253, 1, 2},
			"at no shadow in reach, loss", []Fault{fault(Loss, 60, 60, 1), fault(Kill, 70, 80, 3)}},
		{"the shadow knew, and another took it over", taken(60, 90, 3), [5]float64{9, 9.1, 93, 1, 2}, "", []Fault{fault(Loss, 60, 60, 1)}},
		{"taken over from nobody that a fault has hit", taken(60, 90, 3), [5]float64{9, 9.1, 93, 1, 2}, "", nil},
		{"given away, and then killed", taken(30, 31), [5]float64{9, 9.1, 93, 1, 2}, "", []Fault{fault(Loss, 60, 60, 1)}},

		{"apart", taken(300, 28, 2), [5]float64{21, 21.1, 30, 1, 2}, "apart, split", []Fault{fault(Split, 20, 22, 1)}},
		{"together on their side of a cut", taken(300, 28, 2), [5]float64{21, 21.1, 30, 1, 2}, "", []Fault{fault(Split, 20, 22, 1, 2)}},
		{"healed for long", alone(), [5]float64{200, 201, 202, 1, 2}, "", []Fault{fault(Split, 20, 22, 1)}},
		{"a clean leave", taken(30, 31, 2), [5]float64{29, 29.1, 40, 1, 2}, "", []Fault{fault(Leave, 29, 60, 1)}},
	} {
		got := c.p.excuse(Schedule{Faults: c.s}, c.p.twice(c.x[0], c.x[1], c.x[2], int(c.x[3]), int(c.x[4])))
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestEpochs holds the judge against requests under epochs that must not be, and some
// that may.
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
		{"back to an earlier one", []at{{1, 1, 1}, {2, 2, 2}, {3, 1, 1}}, nil, 1},
		{"in two halves", []at{{1, 1, 1}, {2, 2, 2}, {3, 1, 1}}, []Fault{fault(Split, 0, 5, 1)}, 0},
		{"long after the halves were one", []at{{190, 1, 1}, {191, 2, 2}, {192, 1, 1}}, []Fault{fault(Split, 0, 5, 1)}, 1},
		{"a kill is no excuse", []at{{1, 1, 1}, {2, 2, 1}}, []Fault{fault(Kill, 0, 5, 1)}, 1},
	} {
		w := &world{}
		w.begin = time.Now()
		w.seeded = w.begin.Add(10 * time.Second)
		for _, a := range c.asks {
			w.asks = append(w.asks, ask{at: sec(10 + a.s), subnet: "127.80.3.0/24", peer: a.peer, epoch: a.epoch})
		}
		n := 0
		w.judgeEpochs(Schedule{Faults: c.s}, func(string, ...any) { n++ })
		if n != c.bad {
			t.Errorf("%s: %d violations, want %d", c.name, n, c.bad)
		}
	}
}
