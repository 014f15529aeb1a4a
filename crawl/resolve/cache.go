package resolve

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Cache answers for host names. All methods may be called by any number of
// goroutines at once.
type Cache struct {
	cfg       Config
	overrides map[string][]netip.Addr

	mu      sync.Mutex
	answers *simplelru.LRU[string, answer]
	flights map[string]*flight
}

// answer is what is remembered of one lookup: addresses or an error.
type answer struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
}

// New returns an empty cache. It starts no goroutine; a lookup runs in one of
// its own, which ends with the lookup. Check cfg with Validate first: here
// negative values count as zero, and overrides without an address not at all.
func New(cfg Config) *Cache {
	cfg = cfg.withDefaults()
	answers, err := simplelru.NewLRU[string, answer](cfg.Max, nil)
	if err != nil {
		panic(err) // only for a size below one, which withDefaults excludes
	}
	overrides := make(map[string][]netip.Addr, len(cfg.Overrides))
	for host, addrs := range cfg.Overrides {
		if addrs = normalAddrs(addrs); len(addrs) > 0 {
			overrides[normalHost(host)] = addrs
		}
	}
	return &Cache{cfg: cfg, overrides: overrides, answers: answers, flights: make(map[string]*flight)}
}

// Addrs returns the addresses of host, at least one, sorted (IPv4 first), each
// once. Host is a name or an IP literal without brackets; a literal answers
// for itself. The slice is the caller's.
//
// The error is ErrNotFound when there is no such host, ErrTemporary when
// nobody could tell just now, or the context's when ctx ended first. Failures
// are remembered for Config.NegativeTTL and Config.Retry.
func (c *Cache) Addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, _, err := c.Timed(ctx, host)
	return addrs, err
}

// Timed is Addrs that also tells how long the lookup took that answered: 0 if
// the answer was remembered or needed none.
func (c *Cache) Timed(ctx context.Context, host string) (addrs []netip.Addr, took time.Duration, err error) {
	return c.lookup(ctx, host, false)
}

// Fresh is Addrs that asks, whatever is remembered, and remembers the answer. It
// is for whoever doubts that: it costs a look-up each time.
func (c *Cache) Fresh(ctx context.Context, host string) ([]netip.Addr, error) {
	addrs, _, err := c.lookup(ctx, host, true)
	return addrs, err
}

func (c *Cache) lookup(ctx context.Context, host string, fresh bool) (addrs []netip.Addr, took time.Duration, err error) {
	host = normalHost(host)
	if addrs, ok, err := c.known(host); ok {
		return addrs, 0, err
	}
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	if a, ok := c.answers.Get(host); ok && !fresh && time.Now().Before(a.expires) {
		c.mu.Unlock()
		return slices.Clone(a.addrs), 0, a.err
	}
	fl := c.joinLocked(ctx, host)
	c.mu.Unlock()

	a, err := c.wait(ctx, fl)
	if err != nil {
		return nil, 0, err
	}
	return slices.Clone(a.addrs), fl.took, a.err
}

// known answers without cache and lookup, if that is possible.
func (c *Cache) known(host string) (addrs []netip.Addr, ok bool, err error) {
	if addrs, ok := c.overrides[host]; ok {
		return slices.Clone(addrs), true, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs := normalAddrs([]netip.Addr{a})
		if len(addrs) == 0 {
			return nil, true, &Error{Host: host, kind: ErrNotFound}
		}
		return addrs, true, nil
	}
	if !plausible(host) {
		return nil, true, &Error{Host: host, kind: ErrNotFound}
	}
	return nil, false, nil
}

// normalAddrs returns the usable ones of addrs: unmapped, without zones (which
// mean nothing to another machine), sorted, each once, at most maxAddrs.
func normalAddrs(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); a.IsValid() && a.Zone() == "" {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	return slices.Clip(out[:min(len(out), maxAddrs)])
}
