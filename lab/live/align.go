package live

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"peerd/node/events"
)

const (
	// window is the time for which the difference of two clocks is taken to be constant, but for
	// its drift.
	window = 30 * time.Second
	// reach is the number of windows before and after a window of which bounds are used there.
	reach = 4
	// MaxDrift is how fast two clocks may drift apart: real ones differ by up to 50 millionths, and
	// those that are being corrected by a few hundred.
	MaxDrift = 200e-6
)

const second = float64(time.Second / time.Microsecond)

// ErrClocks means that the times of exchanges contradict each other: a clock drifts faster than
// was assumed.
var ErrClocks = errors.New("the clocks contradict each other")

// clock is the clock of one run of a peer.
type clock struct{ self, run string }

func clockOf(h *events.Header) clock { return clock{h.Self, h.Run} }

func (c clock) compare(d clock) int {
	return cmp.Or(cmp.Compare(c.self, d.self), cmp.Compare(c.run, d.run))
}

// bounds says how far, in microseconds, the clock of the one who answered was ahead of that of the
// one who asked: between lo and hi.
type bounds struct {
	asker, answerer clock
	at              int64 // by the clock of the asker
	lo, hi          float64
}

// Exchanges collects the exchanges of several logs. The zero value is empty.
type Exchanges struct {
	open map[exchangeKey]*half
	all  []bounds
	n    map[clock]int
	seen map[clock]bool
}

type exchangeKey struct {
	asker, answerer string
	id              int64
}

// half is what one side has written of an exchange.
type half struct {
	asked          bool
	clock          clock
	sent, received []int64
}

// maxOpen bounds the exchanges of which only one side has been read.
const maxOpen = 1 << 20

// Add takes in an event.
func (x *Exchanges) Add(e events.Event) {
	if x.seen == nil {
		x.open, x.n, x.seen = map[exchangeKey]*half{}, map[clock]int{}, map[clock]bool{}
	}
	mine := clockOf(e.Head())
	x.seen[mine] = true
	q, ok := e.(*events.Exchange)
	if !ok || len(q.Sent) != len(q.Received) || len(q.Sent) == 0 {
		return
	}
	k := exchangeKey{q.Self, q.Peer, q.ID}
	if !q.Asked {
		k.asker, k.answerer = k.answerer, k.asker
	}
	h := &half{q.Asked, mine, q.Sent, q.Received}
	other := x.open[k]
	if other == nil || other.asked == h.asked {
		if len(x.open) < maxOpen {
			x.open[k] = h
		}
		return
	}
	delete(x.open, k)
	if !h.asked {
		h, other = other, h
	}
	if len(h.sent) != len(other.sent) {
		return
	}
	b := bounds{h.clock, other.clock, h.sent[0], math.Inf(-1), math.Inf(1)}
	for i := range h.sent {
		b.hi = min(b.hi, float64(other.received[i]-h.sent[i]))
		b.lo = max(b.lo, float64(other.sent[i]-h.received[i]))
	}
	// Times are whole microseconds, so that each may be half of one wrong.
	b.lo, b.hi = b.lo-1, b.hi+1
	x.all = append(x.all, b)
	x.n[h.clock]++
	x.n[other.clock]++
}

// span is an interval of how far a clock is ahead of the reference, in microseconds.
type span struct{ lo, hi float64 }

func (s span) widened(by float64) span { return span{s.lo - by, s.hi + by} }
func (s span) within(o span) span      { return span{max(s.lo, o.lo), min(s.hi, o.hi)} }
func (s span) middle() float64         { return (s.lo + s.hi) / 2 }
func (s span) half() float64           { return (s.hi - s.lo) / 2 }

// Clocks are the differences of clocks to the reference, which change from window to window.
type Clocks struct {
	Reference clock
	drift     float64
	rough     map[clock]float64
	// margin is for the positions of exchanges and events among the windows, which follow from
	// rough: they are wrong by a second, and what clocks drift in all.
	margin  float64
	begin   int64 // of the first window, by the reference
	windows []map[clock]span
}

// Align computes the differences. drift is how fast clocks may drift apart, as a share; 0 means
// MaxDrift. The errors wrap ErrClocks.
func (x *Exchanges) Align(drift float64) (*Clocks, error) {
	c := &Clocks{drift: cmp.Or(drift, MaxDrift)}
	if len(x.seen) == 0 {
		return c, nil
	}
	order := slices.SortedFunc(maps.Keys(x.seen), clock.compare)
	c.Reference = slices.MaxFunc(order, func(a, b clock) int {
		return cmp.Or(cmp.Compare(x.n[a], x.n[b]), b.compare(a))
	})
	c.rough = roughly(c.Reference, x.all)
	known := slices.DeleteFunc(slices.Clone(x.all), func(b bounds) bool {
		_, ok := c.rough[b.asker]
		return !ok
	})
	if len(known) == 0 {
		c.windows = []map[clock]span{{c.Reference: {}}}
		return c, nil
	}
	at := func(b bounds) int64 { return b.at - int64(c.rough[b.asker]) }
	slices.SortStableFunc(known, func(a, b bounds) int { return cmp.Compare(at(a), at(b)) })
	c.begin = at(known[0])
	size := window.Microseconds()
	length := at(known[len(known)-1]) - c.begin
	c.margin = c.drift * (second + c.drift*float64(length))
	c.windows = make([]map[clock]span, length/size+1)
	edges := make([]map[[2]clock]float64, len(c.windows))
	for i := range c.windows {
		from := sort.Search(len(known), func(j int) bool {
			return at(known[j]) >= c.begin+int64(i-reach)*size
		})
		middle := c.begin + int64(i)*size + size/2
		edges[i] = map[[2]clock]float64{}
		for _, b := range known[from:] {
			if at(b) >= c.begin+int64(i+1+reach)*size {
				break
			}
			slack := c.drift*math.Abs(float64(at(b)-middle)) + c.margin
			least(edges[i], b.asker, b.answerer, b.hi+slack)
			least(edges[i], b.answerer, b.asker, -b.lo+slack)
		}
	}
	// What is known of a window also bounds the next one, and the one before.
	for i := range c.windows {
		if err := c.settle(i, i-1, edges[i]); err != nil {
			return nil, err
		}
	}
	for i := len(c.windows) - 2; i >= 0; i-- {
		if err := c.settle(i, i+1, edges[i]); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// least keeps that b is ahead of a by at most d.
func least(edges map[[2]clock]float64, a, b clock, d float64) {
	k := [2]clock{a, b}
	if old, ok := edges[k]; !ok || d < old {
		edges[k] = d
	}
}

// roughly returns how far clocks are ahead of the reference, by one exchange each. It is exact
// enough to find the window of an exchange.
func roughly(ref clock, all []bounds) map[clock]float64 {
	rough := map[clock]float64{ref: 0}
	for {
		before := len(rough)
		for _, b := range all {
			asker, okA := rough[b.asker]
			answerer, okB := rough[b.answerer]
			switch ahead := (b.lo + b.hi) / 2; {
			case okA && !okB:
				rough[b.answerer] = asker + ahead
			case okB && !okA:
				rough[b.asker] = answerer - ahead
			}
		}
		if len(rough) == before {
			return rough
		}
	}
}

// settle computes window i from its edges, what is known of it, and its neighbour.
func (c *Clocks) settle(i, neighbour int, edges map[[2]clock]float64) error {
	known := map[clock]span{c.Reference: {}}
	if neighbour >= 0 && neighbour < len(c.windows) {
		for k, s := range c.windows[neighbour] {
			if k != c.Reference {
				known[k] = s.widened(c.drift * float64(window.Microseconds()))
			}
		}
	}
	for k, s := range c.windows[i] {
		if old, ok := known[k]; ok {
			s = s.within(old)
		}
		known[k] = s
	}
	hi, err := shortest(known, edges, func(s span) float64 { return s.hi }, false)
	if err != nil {
		return err
	}
	lo, err := shortest(known, edges, func(s span) float64 { return -s.lo }, true)
	if err != nil {
		return err
	}
	c.windows[i] = map[clock]span{}
	for k := range hi {
		s := span{-lo[k], hi[k]}
		if s.lo > s.hi {
			return fmt.Errorf("%w: that of run %s of %s", ErrClocks, k.run, k.self)
		}
		c.windows[i][k] = s
	}
	return nil
}

// shortest returns the least distance of each clock that can be reached (Bellman, Ford), from
// those that are known. back follows the edges in the opposite direction.
func shortest(
	known map[clock]span, edges map[[2]clock]float64, start func(span) float64, back bool,
) (map[clock]float64, error) {
	d := map[clock]float64{}
	for k, s := range known {
		d[k] = start(s)
	}
	clocks := map[clock]bool{}
	for k := range edges {
		clocks[k[0]] = true
	}
	const least = 1e-6 // sums of the same numbers may differ in their last digits
	for range len(clocks) + len(known) + 1 {
		changed := false
		for k, w := range edges {
			from, to := k[0], k[1]
			if back {
				from, to = to, from
			}
			at, ok := d[from]
			if old, there := d[to]; ok && (!there || at+w < old-least) {
				d[to], changed = at+w, true
			}
		}
		if !changed {
			return d, nil
		}
	}
	return nil, ErrClocks
}

// Correct changes the time of an event to that of the reference, and sets its error bound. An
// event of a clock that cannot be compared keeps its time, and has the bound -1.
func (c *Clocks) Correct(h *events.Header) {
	k := clockOf(h)
	rough, ok := c.rough[k]
	if !ok {
		h.Bound = -1
		return
	}
	size := float64(window.Microseconds())
	// The position between the middles of windows, of which the nearest that is known counts.
	at := (float64(h.T)-rough-float64(c.begin))/size - 0.5
	i := min(max(int(math.Floor(at)), 0), len(c.windows)-1)
	a, b := c.near(k, i, -1), c.near(k, min(i+1, len(c.windows)-1), 1)
	switch {
	case a < 0:
		a = b
	case b < 0:
		b = a
	}
	if a < 0 {
		h.Bound = -1
		return
	}
	share := 0.0
	if b > a {
		share = min(max((at-float64(a))/float64(b-a), 0), 1)
	}
	x, y := c.windows[a][k], c.windows[b][k]
	// By how much the clock may have drifted since the middles of the windows.
	away := (1-share)*math.Abs(at-float64(a)) + share*math.Abs(at-float64(b))
	h.T -= int64(math.Round(x.middle() + share*(y.middle()-x.middle())))
	h.Bound = int64(math.Ceil(max(x.half(), y.half()) + away*size*c.drift + c.margin))
}

// near returns the first window from i on, in a direction, in which a clock is known; -1: none.
func (c *Clocks) near(k clock, i, step int) int {
	for ; i >= 0 && i < len(c.windows); i += step {
		if _, ok := c.windows[i][k]; ok {
			return i
		}
	}
	return -1
}

// Unaligned returns how many runs cannot be compared with the reference, of how many.
func (x *Exchanges) Unaligned(c *Clocks) (n, of int) {
	for k := range x.seen {
		if _, ok := c.rough[k]; !ok {
			n++
		}
	}
	return n, len(x.seen)
}
