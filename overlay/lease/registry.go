package lease

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease/register"
)

var (
	// ErrUnowned is returned when no lease of the subnet is known.
	ErrUnowned = errors.New("lease: nobody owns the subnet")
	// ErrNotOwner is returned when asked to renew another peer's lease.
	ErrNotOwner = errors.New("lease: not the owner")
	// ErrContested is returned when replicas refused a lease but none of them
	// showed a better one. Trying again after some seconds is right.
	ErrContested = register.ErrContested
)

// recheck is how long an expired lease is answered from memory before the DHT is
// asked again: its owner may be dead, and its subnet be looked up at every link.
const recheck = 30 * time.Second

// Values is the DHT as leases see it; see register.Values for what it owes.
type Values = register.Values

// Config holds what a Registry works with.
type Config struct {
	// Self is this peer; required, and Key is its private key.
	Self peer.ID
	Key  crypto.PrivKey
	// Values is the DHT; required.
	Values Values
	// TTL is how long a lease lasts before it must be renewed; at most MaxTTL.
	// Renew at a third of it: a write may take ten seconds and fail.
	TTL time.Duration
	// Settle is the wait between writing a claim and reading it back. It has to
	// outlast a lookup and a write of a rival: 0.5 s each where round trips are
	// up to 240 ms.
	Settle time.Duration
	// CacheSize bounds the leases in memory.
	CacheSize int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger hears of records that should not exist. Nil discards.
	Logger *slog.Logger
}

// DefaultConfig returns a Config that lacks Self, Key and Values.
func DefaultConfig() Config {
	return Config{TTL: DefaultTTL, Settle: 1500 * time.Millisecond, CacheSize: 1 << 16}
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("lease: "+format, args...)) }
	switch {
	case c.Key == nil:
		fault("Key is missing")
	case !c.Self.MatchesPrivateKey(c.Key):
		fault("Key is not that of Self %v", c.Self)
	}
	if c.Values == nil {
		fault("Values is missing")
	}
	if c.TTL < time.Second || c.TTL > MaxTTL {
		fault("TTL is %v, want 1s to %v", c.TTL, MaxTTL)
	}
	if c.Settle < 0 || c.Settle > time.Minute {
		fault("Settle is %v, want 0 to 1m", c.Settle)
	}
	if c.CacheSize < 1 {
		fault("CacheSize is %d, want at least 1", c.CacheSize)
	}
	return errors.Join(errs...)
}

// entry is a lease and what is known about it.
type entry struct {
	lease  Lease
	sealed []byte
	asked  time.Time // when the DHT was last asked about the subnet
	won    bool      // this peer claimed (and settled), adopted or renewed it
}

// unsettled reports whether e is a lease of self that it may not act upon: a
// claim that is still settling or failed in the middle of it, or one that this
// peer made before it forgot all.
func (e entry) unsettled(self peer.ID) bool { return e.lease.Owner == self && !e.won }

// Registry is one peer's view of who owns what. It holds the best lease seen of
// each subnet in bounded memory, and asks the DHT for the rest. It may be used by
// many at once and keeps nothing running; renewing in time is the caller's matter.
type Registry struct {
	cfg Config
	now func() time.Time
	log *slog.Logger

	mu    sync.Mutex // never held during I/O
	cache *simplelru.LRU[netip.Prefix, entry]
}

// NewRegistry returns a Registry that knows no lease yet.
func NewRegistry(cfg Config) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cache, err := simplelru.NewLRU[netip.Prefix, entry](cfg.CacheSize, nil)
	if err != nil {
		return nil, fmt.Errorf("lease: %w", err)
	}
	r := &Registry{cfg: cfg, now: cfg.Now, log: cfg.Logger, cache: cache}
	if r.now == nil {
		r.now = time.Now
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	return r, nil
}

// Lookup returns the best lease known of subnet and its signed form, from memory
// if it is not expired, else from the DHT. The lease may be expired, or another's
// claim that is still settling; when the DHT fails or has less, it is the
// remembered one. It fails with ErrSubnet, ErrUnowned, or what the DHT said.
//
// A lease of this peer that this Registry did not claim, adopt or renew itself is
// ErrUnowned: it may be a claim that is still settling. Claim makes it good.
func (r *Registry) Lookup(ctx context.Context, subnet netip.Prefix) (Lease, []byte, error) {
	if err := checkNames(subnet, r.cfg.Self, 1); err != nil {
		return Lease{}, nil, err
	}
	now := r.now()
	e, ok := r.get(subnet, now)
	if ok && (!e.lease.Expired(now) || now.Sub(e.asked) < recheck) {
		return r.answer(subnet, e, ok, nil)
	}
	e, ok, err := r.read(ctx, subnet)
	return r.answer(subnet, e, ok, err)
}

// Refresh is Lookup that asks the DHT in any case: for callers whom the
// remembered owner does not answer, and for an owner that was told that it is one
// no more. Calling it often is the caller's to avoid.
func (r *Registry) Refresh(ctx context.Context, subnet netip.Prefix) (Lease, []byte, error) {
	if err := checkNames(subnet, r.cfg.Self, 1); err != nil {
		return Lease{}, nil, err
	}
	e, ok, err := r.read(ctx, subnet)
	return r.answer(subnet, e, ok, err)
}

// answer is what Lookup says when e is known and err is what the DHT said.
func (r *Registry) answer(subnet netip.Prefix, e entry, ok bool, err error) (Lease, []byte, error) {
	switch {
	case ok && !e.unsettled(r.cfg.Self):
		return e.lease, e.sealed, nil
	case err != nil:
		return Lease{}, nil, err
	}
	return Lease{}, nil, fmt.Errorf("%w: %v", ErrUnowned, subnet)
}

// Learn takes a signed lease that came some other way than through the DHT, and
// returns the best lease known of its subnet, which need not be this one. It fails
// with the reason for which sealed is refused: above epoch 1 also for want of a
// grant or a takeover that is for just this step.
func (r *Registry) Learn(sealed []byte) (Lease, error) {
	e, err := r.open(sealed)
	if err != nil {
		return Lease{}, err
	}
	return r.keep(e).lease, nil
}

// Cached returns the best lease of subnet in memory, expired or not; of this
// peer's own also one that is not settled.
func (r *Registry) Cached(subnet netip.Prefix) (Lease, bool) {
	e, ok := r.get(subnet, r.now())
	return e.lease, ok
}

// Sealed returns the signed form of what Cached returns, to be shown to others.
// The bytes are shared: read only.
func (r *Registry) Sealed(subnet netip.Prefix) ([]byte, bool) {
	e, ok := r.get(subnet, r.now())
	return e.sealed, ok
}

// Forget drops what is remembered of subnet.
func (r *Registry) Forget(subnet netip.Prefix) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache.Remove(subnet)
}

// get returns the entry of subnet unless it is past its grace.
func (r *Registry) get(subnet netip.Prefix, now time.Time) (entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, ok := r.cache.Get(subnet)
	if !ok || now.Sub(e.lease.Expires) > Grace {
		return entry{}, false
	}
	return e, true
}

// keep remembers e unless a better lease is remembered, and returns the one that
// stays.
func (r *Registry) keep(e entry) entry {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	old, ok := r.cache.Get(e.lease.Subnet)
	if ok && now.Sub(old.lease.Expires) <= Grace {
		same := old.lease.Owner == e.lease.Owner && old.lease.Epoch == e.lease.Epoch
		won := same && (old.won || e.won)
		if Better(old.lease, e.lease) >= 0 {
			e = old
		}
		e.won = e.won || won
	}
	r.cache.Add(e.lease.Subnet, e)
	return e
}

// touch notes that the DHT was asked about subnet, however that went.
func (r *Registry) touch(subnet netip.Prefix) {
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.cache.Peek(subnet); ok {
		e.asked = now
		r.cache.Add(subnet, e)
	}
}

// open checks a signed lease against the clock too.
func (r *Registry) open(sealed []byte) (entry, error) {
	l, err := OpenLease(sealed)
	if err != nil {
		return entry{}, err
	}
	if err := l.CheckTime(r.now()); err != nil {
		return entry{}, err
	}
	return entry{lease: l, sealed: sealed}, nil
}

// found opens a value read from the DHT under the key of subnet. Replicas judge
// what they store, but nothing binds one that lies.
func (r *Registry) found(subnet netip.Prefix, value []byte) (entry, bool) {
	e, err := r.open(value)
	if err == nil && e.lease.Subnet != subnet {
		err = ErrKey
	}
	if err != nil {
		r.log.Warn("ignored a bad lease from the DHT", "subnet", subnet, "err", err)
		return entry{}, false
	}
	return e, true
}

// read asks the DHT and returns the best lease known then. With an error the
// remembered one may still be returned.
func (r *Registry) read(ctx context.Context, subnet netip.Prefix) (entry, bool, error) {
	value, err := register.Get(ctx, r.cfg.Values, Key(subnet))
	if value != nil {
		if e, ok := r.found(subnet, value); ok {
			r.keep(e)
		}
	}
	r.touch(subnet)
	e, ok := r.get(subnet, r.now())
	return e, ok, err
}
