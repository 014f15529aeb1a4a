package web

import (
	"iter"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Web is a synthetic web. Log, Audit, PageTime and the names are safe for concurrent
// use. Listen must be called before methods that return URLs.
type Web struct {
	cfg    Config
	logger *slog.Logger
	sites  []*site
	byHost map[string]*site

	port      int
	listeners []net.Listener
	bind      net.Listener

	recorder recorder
	slow     atomic.Int64 // additional nanoseconds of every answer
	conns    sync.WaitGroup
}

// Site describes one site of a web.
type Site struct {
	Site  int           `json:"site"`
	Host  string        `json:"host"`
	URL   string        `json:"url"` // of its first page
	Addrs []netip.Addr  `json:"addrs"`
	Pages int           `json:"pages"`
	Delay time.Duration `json:"-"` // median time to answer
}

// New returns the web that cfg describes, without serving it. Errors are those of
// Config.Validate.
func New(cfg Config) (*Web, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	w := &Web{cfg: cfg, logger: cfg.Logger, byHost: make(map[string]*site, cfg.Sites)}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	for id, n := range shares(cfg.Sites, cfg.Pages, cfg.Seed) {
		s := newSite(id, n, cfg.Seed, cfg.Delay)
		s.served = cfg.Serve == nil || cfg.Serve(id)
		w.sites = append(w.sites, s)
		w.byHost[s.host] = s
	}
	joinSites(w.sites, cfg.Seed)
	w.setPort(cfg.Port)
	return w, nil
}

// setPort sets the port and the origins of all sites.
func (w *Web) setPort(port int) {
	w.port = port
	suffix := ":" + strconv.Itoa(port)
	if port == 80 {
		suffix = ""
	}
	for _, s := range w.sites {
		s.origin = "http://" + s.host + suffix
		s.shout = strings.ToUpper(s.origin)
	}
}

// Slow sets an additional delay for every answer from now on.
func (w *Web) Slow(by time.Duration) { w.slow.Store(int64(by)) }

// Port returns the port of all sites.
func (w *Web) Port() int { return w.port }

// Seed returns the URL from which all pages are reachable.
func (w *Web) Seed() string { return w.sites[0].origin + "/" }

// Sites returns all sites of the web, served here or not, by number.
func (w *Web) Sites() []Site {
	out := make([]Site, len(w.sites))
	for i, s := range w.sites {
		out[i] = Site{Site: i, Host: s.host, URL: s.origin + "/", Addrs: w.cfg.Addrs(i),
			Pages: len(s.pages), Delay: s.delay}
	}
	return out
}

// Resolve returns the addresses of every host, as a resolver would.
func (w *Web) Resolve() map[string][]netip.Addr {
	m := make(map[string][]netip.Addr, len(w.sites))
	for i, s := range w.sites {
		m[s.host] = w.cfg.Addrs(i)
	}
	return m
}

// Pages yields the canonical URL of every page of the sites served here.
func (w *Web) Pages() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, s := range w.sites {
			for k := range s.pages {
				if s.served && !yield(s.origin+s.pages[k].key) {
					return
				}
			}
		}
	}
}

// lookup returns the site of a Host header or an authority.
func (w *Web) lookup(host string) (*site, bool) {
	if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
		host = host[:i]
	}
	s, ok := w.byHost[strings.ToLower(strings.TrimSuffix(host, "."))]
	return s, ok
}
