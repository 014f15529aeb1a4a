package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"peerd/node/emulate/web"
)

// Report is what came of a run. Times are in seconds, those without a length
// since the seed was given.
type Report struct {
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Peers    int    `json:"peers"`
	Sites    int    `json:"sites"`
	// Outcome is quiet when no peer had work left, stalled when there was work
	// and nobody did it, late when it took too long.
	Outcome     string  `json:"outcome"`
	WallSeconds float64 `json:"wall_seconds"`

	PagesExpected int     `json:"pages_expected"`
	PagesFetched  int     `json:"pages_fetched"`
	Coverage      float64 `json:"coverage"`
	Fetches       int     `json:"fetches"`
	// Overlap is (n−u)/u, n the fetches of pages, u the different ones ([M] 2.2).
	Overlap float64 `json:"overlap"`
	Repeats Repeats `json:"repeats"`
	// Lost are pages that nobody fetched although all is over, some by name.
	Lost    int      `json:"lost"`
	Missing []string `json:"missing"`
	Held    []string `json:"held"` // URLs that peers still had, by host

	Politeness       web.Politeness `json:"politeness"`
	Early            []string       `json:"early"` // some of them, with what happened then
	RobotsViolations int            `json:"robots_violations"`
	LogLost          int            `json:"log_lost"` // requests that the sites could not log
	Foreign          int            `json:"foreign"`  // requests of nobody that we started

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

// Repeats are pages that were fetched more than once, by what happened to the
// peer that had fetched them before.
type Repeats struct {
	Total int `json:"total"`
	// AtFault are those whose first answer was under way, or at most five seconds
	// old, when a fault hit that peer: it may not have been on any disk.
	AtFault int `json:"at_fault"`
	// ByOther were fetched by another peer the second time.
	ByOther int      `json:"by_other"`
	List    []string `json:"list"` // some
}

// eventSummary is an event for the report.
type eventSummary struct {
	At   float64 `json:"at"`
	Took float64 `json:"took"`
	What string  `json:"what"`
	Said string  `json:"said"`
}

// someOf bounds lists in the report.
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
		Held: h.held, Politeness: a.Politeness, RobotsViolations: a.RobotsViolations, LogLost: a.Lost,
		ByPeer: make([]int, h.peers), Faults: map[kind]int{},
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
		r.Events = append(r.Events, eventSummary{At: h.since(e.Begin), Took: seconds(e.End.Sub(e.Begin)), What: e.String(), Said: e.Said})
		switch e.Kind {
		case crash:
			r.Crashes = append(r.Crashes, fmt.Sprintf("peer %d after %.0f s: %s", e.Peer, h.since(e.Begin), e.Said))
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
	for p, n := range h.doubles(h.end.Add(-3*lookEvery), h.end) {
		if n > 1 {
			r.Doubles = append(r.Doubles, p.String())
		}
	}
	slices.Sort(r.Doubles)
	return r
}

func seconds(d time.Duration) float64 { return float64(d.Milliseconds()) / 1000 }

// since is a time of the run in seconds.
func (h *history) since(at time.Time) float64 { return seconds(at.Sub(h.begin)) }

// atFaultTime is how old an answer may be that a fault takes away.
const atFaultTime = 5 * time.Second

// repeats looks for pages that came again.
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

// early tells of requests that came too early at a host, as far as the gap that
// all hosts demand goes.
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
		all = append(all, fmt.Sprintf("%s: peer %d status %d %s %.3f–%.3f s, then peer %d %s %.3f s; %v at %.1f s", hit.Host,
			peerOf(old.Agent), old.Status, old.Path, h.since(old.Start), h.since(old.End), peerOf(hit.Agent), hit.Path, h.since(hit.Start), e.step, h.since(e.Begin)))
	}
	return all
}

// doubles counts, for each subnet that two peers called their own, in how many
// looks in a row they did so at most: two peers are not asked at one instant, so
// once means nothing.
func (h *history) doubles(from, to time.Time) map[netip.Prefix]int {
	most, row := map[netip.Prefix]int{}, map[netip.Prefix]int{}
	for _, l := range h.looks {
		if l.at.Before(from) || l.at.After(to) {
			continue
		}
		count := map[netip.Prefix]int{}
		for _, list := range l.owns {
			for _, p := range list {
				count[p]++
			}
		}
		for p, n := range count {
			if n > 1 {
				row[p]++
			} else {
				row[p] = 0
			}
			most[p] = max(most[p], row[p])
		}
	}
	maps.DeleteFunc(most, func(_ netip.Prefix, n int) bool { return n == 0 })
	return most
}

// median returns the middle of some times in seconds; 0 of none.
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
