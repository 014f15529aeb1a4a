package sim

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"peerd/lab/emulate/web"
	"peerd/store"
)

// Result is the outcome of a simulation.
type Result struct {
	Options    Options
	Schedule   Schedule
	Violations []string
	History    []Event // by time
	Audit      web.Audit
	Missing    []string // the subnets of pages that were not fetched
	Repeated   []Repeat
	Early      []Repeat // requests that violated the politeness delay
	Placements Placements
	Nearness   []Nearness    // before and after a Disturbance
	Took       time.Duration // virtual time from seeding to the end of the crawl
	Healed     time.Duration // from the last fault to the end of the crawl; 0 if that was earlier
}

// Repeat is a pair of requests of which the second should not have been sent, or not
// yet.
type Repeat struct {
	First, Second web.Hit
	A, B          int // the peers that sent them
	Excuse        string
}

func (x Repeat) String() string {
	return fmt.Sprintf("%s%s by peer %d, first by peer %d", x.Second.Host, x.Second.Path, x.B, x.A)
}

// judge checks the invariants against the history.
func (w *world) judge(s Schedule, quiet bool, last, over time.Duration) Result {
	r := Result{Options: w.o, Schedule: s, Audit: w.web.Audit(), Took: over,
		Healed: max(0, over-last)}
	bad := func(format string, args ...any) {
		r.Violations = append(r.Violations, fmt.Sprintf(format, args...))
	}
	if !quiet {
		bad("crawl has not finished %v after the last fault", r.Healed)
		for _, m := range w.machines {
			if m.running() && !m.node.Idle() {
				st := m.node.Status()
				bad("peer %d has work: frontier %+v, outbox %d", m.n, st.Frontier, st.OutboxURLs)
				for _, h := range m.node.Queue() {
					if h.Pending > 0 {
						bad("peer %d, %s in %s: %s, %d URLs, owner %s", m.n, h.Host, h.Subnet,
							h.Role, h.Pending, w.peerName(h.Owner))
					}
				}
			}
		}
	}
	if r.Audit.PagesFetched != r.Audit.PagesExpected {
		missing := w.web.Missing(w.o.Pages)
		bad("fetched %d of %d pages; missing: %s", r.Audit.PagesFetched, r.Audit.PagesExpected,
			strings.Join(missing[:min(len(missing), 5)], " "))
		r.Missing = w.subnetsOf(missing)
	}
	if n := r.Audit.RobotsViolations; n > 0 {
		bad("robots.txt forbade %d requests", n)
	}
	w.mu.Lock()
	for _, why := range w.ended {
		bad("%s", why)
	}
	w.mu.Unlock()
	w.judgeOwners(bad)
	w.judgeReplicas(bad)
	w.judgeEpochs(s, bad)
	w.judgeFetches(&r, bad)
	w.judgePlacements(s, &r, bad)
	slices.SortStableFunc(w.events, func(a, b Event) int { return int(a.At - b.At) })
	r.History = w.events
	return r
}

// judgeOwners checks that each subnet has exactly one owner, under the highest epoch
// that was ever seen.
func (w *world) judgeOwners(bad func(string, ...any)) {
	for _, p := range w.decreased {
		bad("epoch decreased: %s", p)
	}
	for p, peers := range w.held {
		var owners []int
		for _, m := range w.machines {
			h, ok := peers[m.n]
			if !ok || !m.running() {
				continue
			}
			owners = append(owners, m.n)
			if h.Epoch < w.highest[p] {
				bad("peer %d owns %s under epoch %d, want epoch %d", m.n, p, h.Epoch,
					w.highest[p])
			}
		}
		if len(owners) != 1 {
			bad("%s has owners %v, want exactly one", p, owners)
		}
	}
}

// judgeFetches checks that each page was fetched once and that politeness delays were
// kept, except where the schedule has an excuse.
func (w *world) judgeFetches(r *Result, bad func(string, ...any)) {
	pair := func(kind string, first, second web.Hit) Repeat {
		x := Repeat{First: first, Second: second, A: w.peerOf(first.Peer), B: w.peerOf(second.Peer)}
		x.Excuse = w.excuse(r.Schedule, x)
		why := x.Excuse
		if why == "" {
			why = "no excuse"
			bad("%s: %v", kind, x)
		}
		w.noteAt(second.Start.Sub(w.begin), "%s: %v at %v from %.3fs to %.3fs (%s)", kind, x,
			first.Addr, first.Start.Sub(w.begin).Seconds(), first.End.Sub(w.begin).Seconds(), why)
		return x
	}
	first := map[string]web.Hit{}
	for _, h := range w.web.Log() {
		if u := h.Host + h.Path; h.Page {
			if f, ok := first[u]; ok {
				r.Repeated = append(r.Repeated, pair("fetched twice", f, h))
			} else {
				first[u] = h
			}
		}
	}
	for _, e := range w.web.Early() {
		r.Early = append(r.Early, pair("too early", e.Before, e.Hit))
	}
}

func (w *world) noteAt(at time.Duration, format string, args ...any) {
	w.events = append(w.events, Event{At: at, Peer: -1, Text: fmt.Sprintf(format, args...)})
}

// subnetsOf returns the subnets of the pages' hosts.
func (w *world) subnetsOf(pages []string) (all []string) {
	for _, p := range pages {
		u, err := url.Parse(p)
		if err != nil {
			continue
		}
		for _, a := range w.hosts[u.Hostname()] {
			if p := store.SubnetOf(a).String(); !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}

// peerName returns the name of the peer with identifier id.
func (w *world) peerName(id string) string {
	for _, m := range w.machines {
		if m.id.String() == id {
			return m.name
		}
	}
	return "unknown"
}
