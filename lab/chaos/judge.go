package chaos

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/lab/emulate/web"
)

// Report is the result of a run. All times are seconds; points in time count from the seeding
// of the crawl.
type Report struct {
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Peers    int    `json:"peers"`
	Sites    int    `json:"sites"`
	// Outcome is "quiet" if no peer had work left, "stalled" if no peer worked although there
	// was work, "late" if the crawl took too long, or "interrupted" if Run's context ended.
	Outcome     string  `json:"outcome"`
	WallSeconds float64 `json:"wall_seconds"`

	PagesExpected int     `json:"pages_expected"`
	PagesFetched  int     `json:"pages_fetched"`
	Coverage      float64 `json:"coverage"`
	Fetches       int     `json:"fetches"`
	// Overlap is (n−u)/u, where n is the number of fetches of pages and u the number of
	// different pages ([M] 2.2).
	Overlap float64 `json:"overlap"`
	Repeats Repeats `json:"repeats"`
	// Lost is the number of pages that no peer fetched; Missing names some of them.
	Lost    int      `json:"lost"`
	Missing []string `json:"missing"`
	Held    []string `json:"held"` // URLs that peers still had, by host

	Politeness       web.Politeness `json:"politeness"`
	Early            []string       `json:"early"` // some violations, with the nearest event
	RobotsViolations int            `json:"robots_violations"`
	LogLost          int            `json:"log_lost"` // requests that the sites failed to log
	Foreign          int            `json:"foreign"`  // requests by programs other than the peers

	ByPeer    []int          `json:"pages_by_peer"`
	Faults    map[kind]int   `json:"faults"`
	Crashes   []string       `json:"crashes"`
	Takeovers []Takeover     `json:"takeovers"`
	Cuts      []Cut          `json:"cuts"`
	Leaves    []Leave        `json:"leaves"`
	Refetched []Refetched    `json:"refetched"` // because of peers lost for good
	Doubles   []string       `json:"doubles"`   // subnets with two owners at the end
	Events    []eventSummary `json:"events"`
	Checks    []Check        `json:"checks"`
}

// Repeats counts the pages that were fetched more than once.
type Repeats struct {
	Total int `json:"total"`
	// AtFault counts the pages that were first fetched during a fault of the fetching peer, or
	// at most five seconds before: the page may not have been stored.
	AtFault int `json:"at_fault"`
	// ByOther counts the pages that another peer fetched the second time.
	ByOther int      `json:"by_other"`
	List    []string `json:"list"` // some of them
}

// eventSummary is an event as it appears in the report.
type eventSummary struct {
	At     float64 `json:"at"`
	Took   float64 `json:"took"`
	What   string  `json:"what"`
	Output string  `json:"output"`
}

// someOf is the maximum length of the lists in the report.
const someOf = 20

// judge computes the figures of a history.
func judge(h *history) Report {
	a := h.audit
	r := Report{
		Peers: h.peers, Outcome: h.outcome, WallSeconds: seconds(h.end.Sub(h.begin)),
		PagesExpected: a.PagesExpected, PagesFetched: a.PagesFetched, Fetches: a.Fetches,
		Coverage: float64(a.PagesFetched) / float64(max(1, a.PagesExpected)),
		Overlap:  float64(a.Fetches-a.PagesFetched) / float64(max(1, a.PagesFetched)),
		Lost:     len(h.missing), Missing: h.missing[:min(len(h.missing), someOf)],
		Held: h.held, Politeness: a.Politeness, RobotsViolations: a.RobotsViolations,
		LogLost: a.Lost,
		ByPeer:  make([]int, h.peers), Faults: map[kind]int{},
	}
	for _, hit := range h.hits {
		switch i := peerOf(hit.Agent); {
		case hit.Bare:
		case i < 0 || i >= h.peers:
			r.Foreign++
		case hit.Page:
			r.ByPeer[i]++
		}
	}
	for _, e := range h.events {
		r.Faults[e.Kind]++
		r.Events = append(r.Events, eventSummary{At: h.since(e.Begin),
			Took: seconds(e.End.Sub(e.Begin)), What: e.String(), Output: e.Output})
		switch e.Kind {
		case crash:
			r.Crashes = append(r.Crashes, fmt.Sprintf("peer %d after %.0f s: %s", e.Peer,
				h.since(e.Begin), e.Output))
		case kill, lose, pause:
			r.Takeovers = append(r.Takeovers, h.takeover(e))
		case leave:
			r.Leaves = append(r.Leaves, h.leave(e))
		case cut:
			r.Cuts = append(r.Cuts, h.cut(e))
		}
		if e.Kind == lose {
			r.Refetched = append(r.Refetched, h.refetched(e))
		}
	}
	r.Repeats = h.repeats()
	r.Early = h.early()
	for _, d := range h.doublings() {
		if d.to.Equal(h.looks[len(h.looks)-1].at) {
			r.Doubles = append(r.Doubles, d.subnet.String())
		}
	}
	slices.Sort(r.Doubles)
	return r
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// since returns the seconds from the seeding of the crawl to at.
func (h *history) since(at time.Time) float64 { return seconds(at.Sub(h.begin)) }

// atFaultTime is the largest age of an answer that a fault can destroy.
const atFaultTime = 5 * time.Second

// repeats counts the pages that were fetched more than once.
func (h *history) repeats() Repeats {
	var r Repeats
	last := map[string]web.Hit{}
	for _, hit := range h.hits {
		if !hit.Page {
			continue
		}
		key := hit.Host + hit.Path
		old, again := last[key]
		last[key] = hit
		if !again {
			continue
		}
		r.Total++
		from, to := peerOf(old.Agent), peerOf(hit.Agent)
		if from != to {
			r.ByOther++
		}
		e, far := h.nearest(old.End)
		if far <= atFaultTime {
			r.AtFault++
		}
		if len(r.List) < someOf {
			r.List = append(r.List, fmt.Sprintf("%s by %d at %.1f s, by %d at %.1f s; %v at %.1f s",
				key, from, h.since(old.End), to, h.since(hit.Start), e.step, h.since(e.Begin)))
		}
	}
	return r
}

// early describes the requests that violated the politeness gap of their host.
func (h *history) early() []string {
	var all []string
	last := map[string]web.Hit{}
	for _, hit := range h.hits {
		if hit.Bare {
			continue
		}
		old, asked := last[hit.Host]
		last[hit.Host] = hit
		if !asked || hit.Start.Sub(old.End) >= h.gap || len(all) >= someOf {
			continue
		}
		e, _ := h.nearest(hit.Start)
		all = append(all, fmt.Sprintf(
			"%s: peer %d status %d %s %.3f–%.3f s, then peer %d %s %.3f s; %v at %.1f s",
			hit.Host,
			peerOf(old.Agent), old.Status, old.Path, h.since(old.Start), h.since(old.End),
			peerOf(hit.Agent), hit.Path, h.since(hit.Start), e.step, h.since(e.Begin)))
	}
	return all
}

// A doubling is a time in which two peers reported a subnet as their own, in at least two
// successive looks. The peers of one look are not asked at the same instant, so that one look is
// no evidence of two owners.
type doubling struct {
	subnet   netip.Prefix
	from, to time.Time // the first and the last such look
}

// doublings returns the doublings of all subnets.
func (h *history) doublings() (all []doubling) {
	open := map[netip.Prefix]doubling{}
	for _, l := range append(slices.Clone(h.looks), look{}) { // in the last one none has two owners
		count := map[netip.Prefix]int{}
		for _, list := range l.owns {
			for _, p := range list {
				count[p]++
			}
		}
		for p, d := range open {
			if count[p] < 2 {
				delete(open, p)
				if d.to.After(d.from) {
					all = append(all, d)
				}
			}
		}
		for p, n := range count {
			if n < 2 {
				continue
			}
			d, begun := open[p]
			if !begun {
				d = doubling{subnet: p, from: l.at}
			}
			d.to = l.at
			open[p] = d
		}
	}
	return all
}

// median returns the median of some times in seconds, 0 if there are none.
func median(all []float64) float64 {
	if len(all) == 0 {
		return 0
	}
	all = slices.Sorted(slices.Values(all))
	return all[len(all)/2]
}

func most[T cmp.Ordered](all []T) T {
	var m T
	for _, v := range all {
		m = max(m, v)
	}
	return m
}
