package web

import (
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
	Peers            map[netip.Addr]PeerCount `json:"peers"` // by source address
	// Addrs is the number of requests by destination.
	Addrs map[netip.Addr]int `json:"addrs"`
	// Lost is the number of requests after the log was full. The other fields do not
	// include them.
	Lost int `json:"lost"`
}

// Politeness counts requests that were too early: before the previous one at the host
// or the address had been answered, or too soon after it.
type Politeness struct {
	Violations int `json:"violations"` // requests that were too early for either reason
	ByHost     int `json:"by_host"`
	ByAddr     int `json:"by_addr"`
	Overlaps   int `json:"overlaps"` // requests before the end of the previous answer
}

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
	a.Politeness = judge(hits, w.hostGap, w.cfg.MinDelay)
	return a
}

// Early is a request that was too early, and the request before it, with the latest
// end, at the host or the address.
type Early struct{ Before, Hit Hit }

// Early returns the requests that Audit counts as violations of politeness, by start.
func (w *Web) Early() (all []Early) {
	follow(w.Log(), w.hostGap, w.cfg.MinDelay, func(e Early) { all = append(all, e) })
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

// pace tracks the requests to one host or address.
type pace struct {
	any   bool
	until time.Time // end of the latest answer; zero after an answer without end
	last  Hit       // the request with that answer
}

// early reports whether h is too early and whether it overlaps, and records it. Calls
// must be in the order of the starts.
func (p *pace) early(h Hit, gap time.Duration) (early, overlap bool) {
	if p.any {
		overlap = p.until.IsZero() || h.Start.Before(p.until)
		early = overlap || h.Start.Sub(p.until) < gap
	}
	switch {
	case h.End.IsZero():
		p.until, p.last = time.Time{}, h
	case !p.any || !p.until.IsZero() && h.End.After(p.until):
		p.until, p.last = h.End, h
	}
	p.any = true
	return early, overlap
}

// judge counts the requests of a log that were too early. hostGap returns the delay for
// each site, addrGap is the one for every address.
func judge(hits []Hit, hostGap func(site int) time.Duration, addrGap time.Duration) Politeness {
	return follow(hits, hostGap, addrGap, func(Early) {})
}

// follow does the same and calls tell for each such request.
func follow(
	hits []Hit, hostGap func(site int) time.Duration, addrGap time.Duration, tell func(Early),
) Politeness {
	hits = slices.Clone(hits)
	slices.SortStableFunc(hits, func(a, b Hit) int { return a.Start.Compare(b.Start) })
	hosts, addrs := make(map[string]*pace), make(map[netip.Addr]*pace)
	var out Politeness
	for _, h := range hits {
		addr := entry(addrs, h.Addr)
		before := addr.last
		var byHost, over1 bool
		if !h.Bare { // a bare connection has no known host
			host := entry(hosts, h.Host)
			last := host.last
			if byHost, over1 = host.early(h, hostGap(h.Site)); byHost {
				before = last
			}
		}
		byAddr, over2 := addr.early(h, addrGap)
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
