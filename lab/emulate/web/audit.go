package web

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"time"
)

// Audit describes a crawl as the sites saw it.
type Audit struct {
	Sites         int `json:"sites"`          // served here
	PagesExpected int `json:"pages_expected"` // of these sites
	PagesFetched  int `json:"pages_fetched"`  // distinct pages
	Fetches       int `json:"fetches"`        // of pages, including repetitions
	Requests      int `json:"requests"`       // of any kind
	// BareConnections were closed without a request: the cost, for the sites, of measuring
	// and of choosing homes. They are not requests, but must keep the politeness delay, too.
	BareConnections int `json:"bare_connections"`
	// RobotsViolations are requests that robots.txt forbids.
	RobotsViolations int                      `json:"robots_violations"`
	Politeness       Politeness               `json:"politeness"`
	TooEarly         []string                 `json:"too_early,omitempty"` // the first of them
	Peers            map[netip.Addr]PeerCount `json:"peers"`               // by source address
	// Addrs is the number of requests by destination.
	Addrs map[netip.Addr]int `json:"addrs"`
	// Lost is the number of requests after the log was full. The other fields do not
	// include them.
	Lost int `json:"lost"`
}

// Politeness counts requests that were too early: before the previous one at the host
// or the address had been answered, or too soon after it. An address with sites in four domains or
// more may get some at a time.
type Politeness struct {
	Violations int `json:"violations"` // requests that were too early for either reason
	ByHost     int `json:"by_host"`
	ByAddr     int `json:"by_addr"`
	Overlaps   int `json:"overlaps"` // requests before the end of the previous answer
}

// maxTooEarly bounds Audit.TooEarly.
const maxTooEarly = 10

// PeerCount counts the requests of one peer.
type PeerCount struct {
	Requests int   `json:"requests"`
	Pages    int   `json:"pages"`
	Bytes    int64 `json:"bytes"`
}

// Add adds the audit of other sites, with other hosts and addresses.
func (a *Audit) Add(b Audit) {
	a.Sites += b.Sites
	a.PagesExpected += b.PagesExpected
	a.PagesFetched += b.PagesFetched
	a.Fetches += b.Fetches
	a.Requests += b.Requests
	a.BareConnections += b.BareConnections
	a.RobotsViolations += b.RobotsViolations
	a.Politeness.Violations += b.Politeness.Violations
	a.Politeness.ByHost += b.Politeness.ByHost
	a.Politeness.ByAddr += b.Politeness.ByAddr
	a.Politeness.Overlaps += b.Politeness.Overlaps
	early := append(a.TooEarly, b.TooEarly...)
	a.TooEarly = early[:min(len(early), maxTooEarly)]
	if a.Peers == nil {
		a.Peers = make(map[netip.Addr]PeerCount)
	}
	for addr, more := range b.Peers {
		p := a.Peers[addr]
		a.Peers[addr] = PeerCount{p.Requests + more.Requests, p.Pages + more.Pages,
			p.Bytes + more.Bytes}
	}
	if a.Addrs == nil {
		a.Addrs = make(map[netip.Addr]int)
	}
	for addr, n := range b.Addrs {
		a.Addrs[addr] += n
	}
	a.Lost += b.Lost
}

// Audit evaluates the log so far. A request in progress counts as a request, and later
// ones at its host or address overlap it.
func (w *Web) Audit() Audit {
	w.recorder.mu.Lock()
	lost := w.recorder.lost
	w.recorder.mu.Unlock()
	hits := w.Log()

	a := Audit{Lost: lost, Peers: make(map[netip.Addr]PeerCount), Addrs: make(map[netip.Addr]int)}
	for _, s := range w.sites {
		if s.served {
			a.Sites++
			a.PagesExpected += len(s.pages)
		}
	}
	seen := make(map[string]bool, a.PagesExpected)
	for _, h := range hits {
		if h.Bare {
			a.BareConnections++
			continue
		}
		a.Requests++
		a.Addrs[h.Addr]++
		p := a.Peers[h.Peer]
		p.Requests++
		p.Bytes += h.Bytes
		if h.Page {
			p.Pages++
			a.Fetches++
			seen[h.Host+h.Path] = true
		}
		a.Peers[h.Peer] = p
		if h.Site >= 0 && w.sites[h.Site].robots.forbids(h.Path) {
			a.RobotsViolations++
		}
	}
	a.PagesFetched = len(seen)
	a.Politeness = judge(hits, w.limits(), func(e Early) {
		if len(a.TooEarly) < maxTooEarly {
			a.TooEarly = append(a.TooEarly, e.String())
		}
	})
	return a
}

// Early is a request that was too early, and the request at the host or the address that it should
// have waited for.
type Early struct{ Before, Hit Hit }

// String says what was requested, by whom and how early.
func (e Early) String() string {
	when := "before the end of"
	if end := e.Before.End; !end.IsZero() && !e.Hit.Start.Before(end) {
		when = fmt.Sprintf("%v after", e.Hit.Start.Sub(end).Round(time.Millisecond))
	}
	return fmt.Sprintf("%s: %s, %s %s", e.Hit.Start.UTC().Format(time.TimeOnly), e.Hit.words(),
		when, e.Before.words())
}

// words says what was requested, and by whom.
func (h Hit) words() string {
	if h.Bare {
		return fmt.Sprintf("a connection to %v by %v", h.Addr, h.Peer)
	}
	return fmt.Sprintf("%s%s by %v", h.Host, h.Path, h.Peer)
}

// Early returns the requests that Audit counts as violations of politeness, by start.
func (w *Web) Early() (all []Early) {
	judge(w.Log(), w.limits(), func(e Early) { all = append(all, e) })
	return all
}

// hostGap returns the minimum time between two requests to a site.
func (w *Web) hostGap(site int) time.Duration {
	if site < 0 {
		return w.cfg.MinDelay
	}
	return max(w.cfg.MinDelay, w.sites[site].robots.crawlDelay(w.cfg.MinDelay))
}

// Missing returns up to n pages of the sites served here that were not fetched.
func (w *Web) Missing(n int) []string {
	seen := make(map[string]bool)
	for _, h := range w.Log() {
		if h.Page {
			seen[w.sites[h.Site].origin+h.Path] = true
		}
	}
	var out []string
	for u := range w.Pages() {
		if len(out) >= n {
			break
		}
		if !seen[u] {
			out = append(out, u)
		}
	}
	return out
}

// pace tracks the requests to one host or address, which may get some at a time.
type pace struct{ slots []lastHit }

// lastHit is a request and when its answer ended, the zero time if it has not.
type lastHit struct {
	until time.Time
	hit   Hit
}

// free reports whether a request may come at a time.
func (l lastHit) free(at time.Time, gap time.Duration) bool {
	return !l.until.IsZero() && at.Sub(l.until) >= gap
}

// early reports whether h is too early if most requests at a time are permitted, and whether it
// overlaps, and records it. before is the request that it should have waited for. Calls must be in
// the order of the starts.
func (p *pace) early(h Hit, gap time.Duration, most int) (early, overlap bool, before Hit) {
	i := slices.IndexFunc(p.slots, func(l lastHit) bool { return l.free(h.Start, gap) })
	if i < 0 && len(p.slots) < most {
		i = len(p.slots)
		p.slots = append(p.slots, lastHit{})
	} else if i < 0 { // the one that it has to wait for least
		early = true
		for k, l := range p.slots {
			if i < 0 || !l.until.IsZero() &&
				(p.slots[i].until.IsZero() || l.until.Before(p.slots[i].until)) {
				i = k
			}
		}
		before = p.slots[i].hit
		overlap = p.slots[i].until.IsZero() || h.Start.Before(p.slots[i].until)
	}
	if l := &p.slots[i]; h.End.IsZero() || !early || !l.until.IsZero() && h.End.After(l.until) {
		*l = lastHit{h.End, h}
	}
	return early, overlap, before
}

// addrRequests returns how many requests at a time an address may get that has hosts in so many
// registrable domains, each site one: what peers keep to that are not configured otherwise.
func addrRequests(domains int) int {
	if domains < 4 {
		return 1
	}
	return min(int(math.Sqrt(float64(domains))), 8)
}

// limits are what the sites expect of crawlers.
type limits struct {
	hostGap func(site int) time.Duration // between two requests
	addrGap time.Duration                // the same, at every address
	domains map[netip.Addr]int           // at each address; one if not listed
}

func (w *Web) limits() limits {
	l := limits{hostGap: w.hostGap, addrGap: w.cfg.MinDelay, domains: make(map[netip.Addr]int)}
	for i := range w.sites {
		for _, a := range w.cfg.Addrs(i) {
			l.domains[a]++
		}
	}
	return l
}

// judge counts the requests of a log that were too early, and calls tell for each.
func judge(hits []Hit, l limits, tell func(Early)) Politeness {
	hits = slices.Clone(hits)
	slices.SortStableFunc(hits, func(a, b Hit) int { return a.Start.Compare(b.Start) })
	hosts, addrs := make(map[string]*pace), make(map[netip.Addr]*pace)
	var out Politeness
	for _, h := range hits {
		var byHost, over1 bool
		var first Hit
		if !h.Bare { // a bare connection has no known host
			byHost, over1, first = entry(hosts, h.Host).early(h, l.hostGap(h.Site), 1)
		}
		byAddr, over2, before := entry(addrs, h.Addr).early(h, l.addrGap,
			addrRequests(l.domains[h.Addr]))
		if byHost {
			before = first
		}
		if byHost || byAddr {
			tell(Early{before, h})
		}
		out.ByHost += count(byHost)
		out.ByAddr += count(byAddr)
		out.Violations += count(byHost || byAddr)
		out.Overlaps += count(over1 || over2)
	}
	return out
}

// entry returns m[k], which it creates if it does not exist.
func entry[K comparable](m map[K]*pace, k K) *pace {
	p := m[k]
	if p == nil {
		p = new(pace)
		m[k] = p
	}
	return p
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}
