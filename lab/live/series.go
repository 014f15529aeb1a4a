package live

import (
	"cmp"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"peerd/coords"
	"peerd/node/events"
)

const (
	// tick is the time between two points of a line.
	tick = 10 * time.Second
	// recent is the number of downloads of which a speed is the median (Malet 2009, figure 5.3).
	recent = 120
	// typicalPage is the size, in bytes, of the page of which the time is a distance.
	typicalPage = 10_000
)

// point is a value at a time, in minutes since the first event.
type point struct{ x, y float64 }

// download is a page that was fetched.
type download struct {
	at     int64
	ms     float64
	served bool
}

// cost is what it took to decide about a subnet.
type cost struct {
	owner       string // the peer that decided
	seconds     float64
	updates     int
	error       float64
	hasProxy    bool
	claimedAt   int64
	decidedOnce bool
}

// group are the events of all peers that had the same strategy.
type group struct {
	strategy string
	affected string // the peer of the figures about one peer
	server   string // the subnet of the figure about one
	begin    int64
	end      int64
	ticks    int64 // that have been taken

	at      map[string]events.Coordinate // by peer, the latest
	states  map[string]*events.State     // by peer, the latest
	proxies map[string]events.Proxy      // by subnet, the latest
	costs   map[string]*cost             // by subnet

	downloads []download
	urls      []download // received by the affected peer: ms is their number
	pages     map[string]int
	hosts     map[string]bool
	byPeer    map[string]int // pages
	answers   map[string]int
	wrong     []float64 // |predicted - measured| / measured
	messages  map[string]int
	sum       sums

	distance, proxyError, serverTime, serverError []point
	load, queued, waiting                         []point
	marks                                         []point // y unused
}

// sums are counts of a group.
type sums struct {
	requests, failed, answered, links, estimations int
	bytes                                          int64
}

func newGroup(strategy string) *group {
	return &group{strategy: strategy, at: map[string]events.Coordinate{},
		states: map[string]*events.State{}, proxies: map[string]events.Proxy{},
		costs: map[string]*cost{}, pages: map[string]int{}, hosts: map[string]bool{},
		byPeer: map[string]int{}, answers: map[string]int{}, messages: map[string]int{}}
}

// choice is what figures about one peer and one subnet are about.
type choice struct{ peer, subnet string }

// read reads merged logs into groups. Figures about one peer are about the peer with an ID that
// ends with want.peer, or else the first one to which an experiment did something, or else the one
// that received the most URLs; those about one subnet about want.subnet, or the one with the most
// requests.
func read(names []string, want choice) ([]*group, int, error) {
	strategies := map[clock]string{}            // by run
	here := make([]map[string]bool, len(names)) // strategies of the runs in each log
	each := func(fn func(log int, e events.Event) error) (skipped int, err error) {
		for i, name := range names {
			n, err := Each([]string{name}, func(e events.Event) error { return fn(i, e) })
			if skipped += n; err != nil {
				return skipped, err
			}
		}
		return skipped, nil
	}
	urls, fetches := map[string]map[string]int{}, map[string]map[string]int{}
	count := func(in map[string]map[string]int, strategy, what string, n int) {
		if in[strategy] == nil {
			in[strategy] = map[string]int{}
		}
		in[strategy][what] += n
	}
	_, err := each(func(log int, e events.Event) error {
		k := clockOf(e.Head())
		switch e := e.(type) {
		case *events.Start:
			strategies[k] = e.Strategy
			if here[log] == nil {
				here[log] = map[string]bool{}
			}
			here[log][e.Strategy] = true
		case *events.Batch:
			if !e.Sent {
				count(urls, strategies[k], e.Self, e.Accepted)
			}
		case *events.Fetch:
			count(fetches, strategies[k], e.Subnet, 1)
		case *events.Mark:
			want.peer = cmp.Or(want.peer, e.Peer)
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	groups := map[string]*group{}
	for _, s := range strategies {
		if groups[s] != nil {
			continue
		}
		g := newGroup(s)
		g.affected = most(urls[s], func(peer string) bool {
			return want.peer != "" && strings.HasSuffix(peer, want.peer)
		})
		g.server = most(fetches[s], func(subnet string) bool { return subnet == want.subnet })
		groups[s] = g
	}
	skipped, err := each(func(log int, e events.Event) error {
		if _, ok := e.(*events.Mark); ok { // those of other logs have times of other experiments
			for strategy := range here[log] {
				if g := groups[strategy]; g != nil {
					g.add(e)
				}
			}
		} else if g := groups[strategies[clockOf(e.Head())]]; g != nil {
			g.add(e)
		}
		return nil
	})
	for _, g := range groups {
		g.catchUp(g.end)
	}
	return slices.SortedFunc(maps.Values(groups), func(a, b *group) int {
		return strings.Compare(a.strategy, b.strategy)
	}), skipped, err
}

// most returns the key that is wanted, or else the one with the most.
func most(counts map[string]int, wanted func(string) bool) (best string) {
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		if wanted(k) {
			return k
		}
		if best == "" || counts[k] > counts[best] {
			best = k
		}
	}
	return best
}

// minutes returns a time in minutes since the first event.
func (g *group) minutes(t int64) float64 { return float64(t-g.begin) / 60e6 }

// add takes in an event. Those of merged logs are in the order of their times.
func (g *group) add(e events.Event) {
	h := e.Head()
	if g.begin == 0 {
		g.begin = h.T
	}
	g.catchUp(h.T)
	g.end = max(g.end, h.T)
	switch e := e.(type) {
	case *events.Fetch:
		g.addFetch(e)
	case *events.Page:
		g.pages[e.URL]++
		g.byPeer[e.Self]++
		g.sum.links += e.Links
		if u, err := url.Parse(e.URL); err == nil {
			g.hosts[u.Host] = true
		}
	case *events.Sample:
		g.sum.estimations++
	case *events.State:
		g.at[e.Self], g.states[e.Self] = e.At, e
	case *events.Lease:
		if e.Proxy != nil {
			g.proxies[e.Subnet] = *e.Proxy
		}
	case *events.Decision:
		if e.Proxy != nil {
			g.proxies[e.Subnet] = *e.Proxy
		}
		g.addDecision(e)
	case *events.Message:
		g.messages[e.Text]++
		if e.Text == "claimed subnet" && g.costs[e.Subnet] == nil {
			g.costs[e.Subnet] = &cost{owner: e.Self, claimedAt: h.T}
		}
	case *events.Batch:
		if !e.Sent && e.Self == g.affected {
			g.urls = append(g.urls, download{at: h.T, ms: float64(e.Accepted)})
		}
	case *events.Mark:
		g.marks = append(g.marks, point{x: g.minutes(h.T)})
	}
}

func (g *group) addFetch(e *events.Fetch) {
	took := e.Total()
	if e.Outcome == "ok" && e.FirstByte+e.Body == 0 {
		return // a connection only
	}
	g.sum.requests++
	answer := e.Outcome
	if e.Status > 0 {
		answer = strconv.Itoa(e.Status)
		g.sum.answered++
	} else {
		g.sum.failed++
	}
	g.answers[answer]++
	if e.Outcome != "ok" {
		return
	}
	g.sum.bytes += e.Bytes
	g.downloads = append(g.downloads, download{e.T, took, e.Served})
	if measured := e.FirstByte + e.Body; e.Predicted > 0 && measured > 0 {
		g.wrong = append(g.wrong, math.Abs(e.Predicted-measured)/measured)
	}
}

// addDecision takes in the first decision about a subnet that was claimed.
func (g *group) addDecision(e *events.Decision) {
	c := g.costs[e.Subnet]
	if c == nil || c.decidedOnce || c.owner != e.Self {
		return
	}
	c.decidedOnce, c.updates = true, len(e.Evidence)
	c.seconds = float64(e.T-c.claimedAt) / 1e6
	if e.Proxy != nil {
		c.hasProxy, c.error = true, e.Proxy.Error
	}
}

// catchUp takes the points of all lines that are due before a time.
func (g *group) catchUp(now int64) {
	for g.begin+(g.ticks+1)*tick.Microseconds() <= now {
		g.ticks++
		g.look(float64(g.ticks) * tick.Minutes())
	}
}

// look adds a point to each line about the state of the peers.
func (g *group) look(x float64) {
	var distances, errs, loads []float64
	at, known := g.at[g.affected]
	for _, subnet := range slices.Sorted(maps.Keys(g.proxies)) {
		p := g.proxies[subnet]
		errs = append(errs, p.Error)
		if known {
			distances = append(distances, predict(p, at))
		}
	}
	var queued, waiting float64
	for _, s := range g.states {
		loads = append(loads, s.Load1)
		queued += float64(s.Queued)
		waiting += float64(s.Outbox + s.Unclaimed)
	}
	add := func(to *[]point, y float64) {
		if !math.IsNaN(y) {
			*to = append(*to, point{x, y})
		}
	}
	add(&g.distance, quantile(distances, 0.5))
	add(&g.proxyError, quantile(errs, 0.5))
	add(&g.load, quantile(loads, 0.5))
	if len(g.states) > 0 {
		add(&g.queued, queued)
		add(&g.waiting, waiting)
	}
	if p, ok := g.proxies[g.server]; ok {
		var times []float64
		for _, c := range g.at {
			times = append(times, predict(p, c))
		}
		add(&g.serverTime, quantile(times, 0.5))
		add(&g.serverError, p.Error)
	}
}

// predict returns the expected time of a typical page in ms.
func predict(p events.Proxy, at events.Coordinate) float64 {
	took := coords.Proxy{At: coords.Coordinate(p.At), Delay: p.Delay, Scale: p.Scale,
		PerKB: p.PerKB}.Predict(coords.Coordinate(at), typicalPage)
	return float64(took) / float64(time.Millisecond)
}

// speed returns the median of the latest downloads, every tick.
func (g *group) speed() (all []point) {
	var last []float64
	next := g.begin + tick.Microseconds()
	for _, d := range g.downloads {
		for ; d.at >= next; next += tick.Microseconds() {
			if len(last) >= recent/4 {
				all = append(all, point{g.minutes(next), quantile(last, 0.5)})
			}
		}
		last = append(last, d.ms)
		last = last[max(0, len(last)-recent):]
	}
	return all
}

// received returns how many URLs the affected peer had received, and how many per minute.
func (g *group) received() (total, rate []point) {
	sum, minute, n := 0.0, 0, 0.0
	flush := func(to int) {
		for ; minute < to; minute++ {
			rate = append(rate, point{float64(minute) + 0.5, n})
			n = 0
		}
	}
	for _, u := range g.urls {
		x := g.minutes(u.at)
		flush(int(x))
		n += u.ms
		total = append(total, point{x, sum}, point{x, sum + u.ms})
		sum += u.ms
	}
	flush(int(math.Ceil(g.minutes(g.end))))
	return append(total, point{g.minutes(g.end), sum}), rate
}

// quantile returns the nearest rank; NaN if there is none.
func quantile(xs []float64, q float64) float64 {
	if len(xs) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(xs))
	return s[min(len(s)-1, max(0, int(math.Ceil(q*float64(len(s))))-1))]
}

func round(x float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(x*f) / f
}
