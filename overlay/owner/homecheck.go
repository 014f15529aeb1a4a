package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/overlay/lease"
	"peerd/store"
)

// Anybody can write a home record. One that names a subnet in which this peer's own resolver shows
// no address of the host is therefore believed only if the subnet has an owner that has been known
// for long and crawls the host: the host's addresses depend on the place, or it has moved.
// docs/protocol/home.md has the rule.

// Word is what is known of the peer that owns a subnet which a home record names.
type Word uint8

const (
	// Strange: the peer has not been known for long. It was not asked.
	Strange Word = iota
	// Young: the peer has not been known for long, as few peers are in a large network.
	Young
	// Silent: the peer has been known for long, and does not answer.
	Silent
	// Denies, Confirms: the peer has been known for long, and crawls the host or does not.
	Denies
	Confirms
)

// Confirmer asks the owner of a subnet whether it crawls a host.
type Confirmer interface {
	// Confirm asks a peer about the host of a URL, if it is worth asking.
	Confirm(ctx context.Context, owner peer.ID, u store.URL) Word
}

const (
	// maxBeliefs bounds the hosts of which it is remembered whether their record is believed.
	maxBeliefs = 1 << 14
	// beliefFor is how long a record is believed, or not, before that is decided again.
	beliefFor = 10 * time.Minute
	// deniedTwice is the time after which an owner that has denied to crawl a host is asked again
	// before the record is not believed: the host may have been on its way.
	deniedTwice = 10 * time.Second
	// confirmsAtOnce bounds the owners that are asked at the same time.
	confirmsAtOnce = 24
)

var (
	errYoung  = errors.New("owner: the owner of the host's home has not been known for long")
	errDenied = errors.New("owner: the owner of the host's home does not crawl it")
)

// belief says whether the record that names a home of a host is believed.
type belief struct {
	home     netip.Prefix
	believed bool
	until    time.Time // until when that is decided; zero: it is not
	denied   time.Time // when the owner of the home first denied; zero: it did not
}

// homeChecks remembers which home records are believed. Its methods are safe for concurrent use.
type homeChecks struct {
	mu      sync.Mutex
	beliefs *lru.Simple[string, belief] // by host
}

func newHomeChecks() *homeChecks {
	return &homeChecks{beliefs: lru.NewSimple[string, belief](maxBeliefs, nil)}
}

// get returns what was decided on a home, if that was.
func (c *homeChecks) get(host string, p netip.Prefix, now time.Time) (believed, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.beliefs.Get(host)
	if !ok || v.home != p || now.After(v.until) {
		return false, false
	}
	return v.believed, true
}

// set decides on a home.
func (c *homeChecks) set(host string, p netip.Prefix, believed bool, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beliefs.Add(host, belief{home: p, believed: believed, until: now.Add(beliefFor)})
}

// deny notes that the owner of a host's home denies, and reports whether it did so long ago, too.
func (c *homeChecks) deny(host string, p netip.Prefix, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, _ := c.beliefs.Get(host)
	if v.home != p || now.Sub(v.denied) > beliefFor {
		c.beliefs.Add(host, belief{home: p, denied: now})
		return false
	}
	return now.Sub(v.denied) >= deniedTwice
}

// believes reports whether the home p of a host, which its record names, is one. found are the
// addresses that our own resolver returned. An error says that this is not decided yet.
func (w *resolver) believes(
	ctx context.Context, host string, p netip.Prefix, found []netip.Addr,
) (bool, error) {
	if w.Live(p) || slices.ContainsFunc(found, p.Contains) || w.wrote(host) {
		return true, nil
	}
	if believed, ok := w.checks.get(host, p, time.Now()); ok {
		return believed, nil
	}
	found, err := w.cfg.ResolveFresh(ctx, host) // it may just have moved
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(found, func(a netip.Addr) bool { return p.Contains(a.Unmap()) }) {
		return true, nil
	}
	believed, who, err := w.confirmed(ctx, host, p)
	if err != nil {
		return false, err
	}
	w.checks.set(host, p, believed, time.Now())
	if !believed {
		w.log.Warn("ignored home record: the host has no address there by our resolver, and no "+
			"peer that is known for long crawls it", "host", host, "home", p, "owner", who)
	}
	return believed, nil
}

// wrote reports whether the record of a host's home is ours.
func (w *resolver) wrote(host string) bool {
	r, ok := w.cfg.Homes.Known(host)
	return ok && r.By == w.cfg.Self
}

// confirmed reports whether the owner of a host's home, which is returned too, has been known for
// long and crawls it. One that does not answer may still be the owner: its subnets are taken over
// otherwise.
func (w *resolver) confirmed(
	ctx context.Context, host string, p netip.Prefix,
) (believed bool, who peer.ID, err error) {
	if w.cfg.Confirm == nil {
		return true, "", nil
	}
	l, _, err := w.lookUpLease(ctx, p)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		return false, "", nil
	case err != nil:
		return false, "", err
	}
	u, err := w.reachability.urlOf(host)
	if err != nil {
		return false, "", err
	}
	if err := w.confirming.Acquire(ctx, 1); err != nil {
		return false, "", err
	}
	defer w.confirming.Release(1)
	switch w.cfg.Confirm.Confirm(ctx, l.Owner, u) {
	case Young:
		return false, l.Owner, fmt.Errorf("%w: %v", errYoung, l.Owner)
	case Denies:
		if !w.checks.deny(host, p, time.Now()) {
			w.cfg.Leases.Doubt(p) // perhaps another peer has it by now
			return false, l.Owner, fmt.Errorf("%w: %v", errDenied, l.Owner)
		}
		return false, l.Owner, nil
	case Silent, Confirms:
		return true, l.Owner, nil
	}
	return false, l.Owner, nil
}
