package resolve

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"time"

	"peerd/internal/lru"
	"peerd/internal/order"
)

// Cache resolves host names. Its methods are safe for concurrent use.
type Cache struct {
	cfg       Config
	overrides map[string][]netip.Addr

	mu      sync.Mutex
	answers *lru.Simple[string, answer]
	calls   map[string]*call
	// durations holds those of lookups that TakeDuration has not returned.
	durations *lru.Simple[string, time.Duration]
}

// answer is the result of one lookup: addresses or an error, or both if the lookup failed and the
// addresses have expired.
type answer struct {
	addrs   []netip.Addr
	err     error
	expires time.Time
	// repeats is until when another lookup would only repeat this one.
	repeats time.Time
	// stale is until when the addresses may be used if lookups fail (RFC 8767).
	stale time.Time
}

// get returns a copy of the addresses, or the error.
func (a answer) get(fresh bool) ([]netip.Addr, error) {
	if a.err != nil && (fresh || len(a.addrs) == 0) {
		return nil, a.err
	}
	return slices.Clone(a.addrs), nil
}

// New returns an empty cache. It starts no goroutine; each lookup runs in a goroutine that ends
// with it. New does not validate cfg: it treats a negative NegativeTTL as zero, and ignores
// overrides without a usable address.
func New(cfg Config) *Cache {
	cfg = cfg.withDefaults()
	overrides := make(map[string][]netip.Addr, len(cfg.Overrides))
	for host, addrs := range cfg.Overrides {
		if addrs = normalAddrs(addrs); len(addrs) > 0 {
			overrides[normalHost(host)] = addrs
		}
	}
	return &Cache{
		cfg: cfg, overrides: overrides, answers: lru.NewSimple[string, answer](maxEntries, nil),
		durations: lru.NewSimple[string, time.Duration](maxEntries, nil),
		calls:     make(map[string]*call),
	}
}

// Addrs returns the addresses of host: at least one, sorted with IPv4 first, without duplicates.
// Host is a name or an IP literal without brackets; a literal resolves to itself. The caller
// owns the slice.
//
// The error matches ErrNotFound if there is no such host, ErrTemporary if the lookup failed,
// ErrBusy if it must be tried later, or it is the error of ctx if ctx ended first. The first two
// are *Error and are cached. If a lookup fails, addresses that have expired are returned for some
// time.
func (c *Cache) Addrs(ctx context.Context, host string) ([]netip.Addr, error) {
	return c.lookup(ctx, host, false)
}

// Refresh is like Addrs, but ignores a cached answer unless it is a few seconds old at most, within
// its TTL, and never returns expired addresses.
func (c *Cache) Refresh(ctx context.Context, host string) ([]netip.Addr, error) {
	return c.lookup(ctx, host, true)
}

// TakeDuration returns how long the last lookup of host took, if it has not returned that before;
// otherwise 0. It is for the record of the first fetch after a lookup. The duration includes waits
// for the limits of queries.
func (c *Cache) TakeDuration(host string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	took, _ := c.durations.Peek(host)
	c.durations.Remove(host)
	return took
}

func (c *Cache) lookup(ctx context.Context, host string, fresh bool) ([]netip.Addr, error) {
	host = normalHost(host)
	if addrs, ok, err := c.resolveLocally(host); ok {
		return addrs, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	if a, ok := c.answers.Get(host); ok {
		until := a.expires
		if fresh {
			until = a.repeats
		}
		if time.Now().Before(until) {
			c.mu.Unlock()
			return a.get(fresh)
		}
	}
	cl := c.joinLocked(ctx, host)
	c.mu.Unlock()

	a, err := c.wait(ctx, cl)
	if err != nil {
		return nil, err
	}
	return a.get(fresh)
}

// resolveLocally resolves host without the cache or a lookup, if that is possible.
func (c *Cache) resolveLocally(host string) (addrs []netip.Addr, ok bool, err error) {
	if addrs, ok := c.overrides[host]; ok {
		return slices.Clone(addrs), true, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs := normalAddrs([]netip.Addr{a})
		if len(addrs) == 0 {
			return nil, true, &Error{Host: host, Reason: ReasonInvalid, Began: time.Now()}
		}
		return addrs, true, nil
	}
	if !isValidName(host) {
		return nil, true, &Error{Host: host, Reason: ReasonInvalid, Began: time.Now()}
	}
	return nil, false, nil
}

// normalAddrs returns the usable addresses among addrs: unmapped, sorted, without duplicates,
// at most maxAddrs. Addresses with a zone are dropped, because a zone has no meaning on another
// machine.
func normalAddrs(addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if a = a.Unmap(); a.IsValid() && a.Zone() == "" {
			out = append(out, a)
		}
	}
	order.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	return slices.Clip(out[:min(len(out), maxAddrs)])
}
