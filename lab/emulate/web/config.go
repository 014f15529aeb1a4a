package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"peerd/lab/emulate/wan"
)

// Config describes a web and how to serve it.
type Config struct {
	// Sites and Pages are the totals of the whole web, including sites that other
	// processes serve. Pages is at least Sites.
	Sites, Pages int
	// Seed determines all other properties of the content.
	Seed uint64
	// Addrs returns the addresses of a site, at least one. Sites may share an
	// address; 0.0.0.0 is all addresses of the machine. Required.
	Addrs func(site int) []netip.Addr
	// Port is the port of all sites; 0 chooses a free one. It is part of the URLs
	// unless it is 80.
	Port int
	// Serve selects the sites that this process serves and audits. Nil means all.
	Serve func(site int) bool
	// MinDelay is the required politeness delay from the end of a response to the
	// start of the next request, at each host and at each address.
	MinDelay time.Duration
	// Delay is the median over the sites of the time that a site takes to answer.
	// The times of its pages vary by up to 30 %. 0 answers at once.
	Delay time.Duration
	// World and Place, the place in it at which a client at place from reaches a site, are
	// only used by PageTime. Nil means no latency.
	World *wan.World
	Place func(from, site int) int
	// Open opens a port of an address of the sites. Nil means a TCP socket.
	Open func(netip.AddrPort) (net.Listener, error)
	// OnRequest, if not nil, is called with each request to the sites before it is
	// answered. Calls may be concurrent.
	OnRequest func(Hit)
	// Bind is an additional address, HOST:PORT, that serves all sites by Host,
	// without audit, and /-/log, /-/audit and /-/sites. Empty means none.
	Bind string
	// Logger receives the errors of the servers. Nil discards them.
	Logger *slog.Logger
}

// DefaultConfig returns a web of 24 sites and 3,000 pages, each site in a
// loopback subnet of its own.
func DefaultConfig() Config {
	return Config{
		Sites: 24, Pages: 3000, Seed: 1,
		Addrs: func(site int) []netip.Addr {
			return []netip.Addr{netip.AddrFrom4([4]byte{127, 80 + byte(site>>8), byte(site), 10})}
		},
		MinDelay: 40 * time.Millisecond,
		Delay:    40 * time.Millisecond,
	}
}

// The limits of a web. They keep indices within 31 bits and addresses in the range of
// DefaultConfig.
const (
	maxSites = 10_000
	maxPages = 10_000_000
)

// Validate returns an error that names all invalid fields of c.
func (c Config) Validate() error {
	var errs []error
	if c.Sites < 1 || c.Sites > maxSites {
		errs = append(errs, fmt.Errorf("web: Sites is %d, want 1 to %d", c.Sites, maxSites))
	}
	if c.Pages < c.Sites || c.Pages > maxPages {
		errs = append(errs, fmt.Errorf(
			"web: Pages is %d, want at least one for each of %d sites and at most %d", c.Pages,
			c.Sites, maxPages))
	}
	if c.Addrs == nil {
		errs = append(errs, errors.New("web: Addrs is missing"))
	}
	if c.Port < 0 || c.Port > 65535 {
		errs = append(errs, fmt.Errorf("web: Port is %d, want 0 to 65535", c.Port))
	}
	if c.MinDelay < 0 {
		errs = append(errs, fmt.Errorf("web: MinDelay is %v, want no negative time", c.MinDelay))
	}
	if c.Delay < 0 || c.Delay > time.Minute {
		errs = append(errs, fmt.Errorf("web: Delay is %v, want 0 to 1m", c.Delay))
	}
	if (c.World == nil) != (c.Place == nil) {
		errs = append(errs, errors.New("web: World and Place go together"))
	}
	return errors.Join(errs...)
}
