package lease

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/record"
)

var (
	// ErrUnowned is returned when no lease of the subnet is known.
	ErrUnowned = errors.New("lease: the subnet has no owner")
	// ErrNotOwner is returned when asked to renew another peer's lease.
	ErrNotOwner = errors.New("lease: not the owner")
	// ErrRefused is returned when no record holder took a lease, and most of those that are old
	// members hold another one of which this peer does not know that it is better.
	ErrRefused = errors.New("lease: most record holders hold another one")
)

// recheck is how long an expired lease is answered from memory before the DHT is
// asked again: its owner may be dead, and its subnet be looked up at every link.
const recheck = 30 * time.Second

// Config configures a Registry.
type Config struct {
	record.Config
	// Judge decides which lease stands. Nil: one that knows nothing of this peer.
	Judge *Judge
	// Holders gives receipts for claims. Nil: claims have none.
	Holders Holders
	// TTL is how long a lease lasts before it must be renewed; at most MaxTTL.
	// Renew at a third of it: a write may take ten seconds and fail.
	TTL time.Duration
}

// DefaultConfig returns a Config that lacks Self, Key and Values.
func DefaultConfig() Config {
	return Config{Config: record.Config{Settle: 1500 * time.Millisecond, CacheSize: 1 << 16},
		TTL: DefaultTTL}
}

// Validate returns all faults of c, joined.
func (c Config) Validate() error {
	err := c.Config.Validate()
	if c.TTL < time.Second || c.TTL > MaxTTL {
		err = errors.Join(err, fmt.Errorf("lease: TTL is %v, want 1s to %v", c.TTL, MaxTTL))
	}
	return err
}

type entry = record.Entry[Lease]

// Registry is one peer's view of who owns what. It is safe for concurrent use and starts
// nothing; renewing in time is the caller's matter. Cached returns leases that are expired but
// not past their Grace, and of this peer's own also one that is not settled.
type Registry struct {
	*record.Register[netip.Prefix, Lease]
	cfg  Config
	kind *record.Type[netip.Prefix, Lease]
}

// NewRegistry returns a Registry that knows no lease yet.
func NewRegistry(cfg Config) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Judge == nil {
		cfg.Judge = NewJudge(cfg.Clock, nil)
	}
	kind := typeFor(cfg.Network, cfg.Judge, cfg.Clock)
	r, err := record.New(kind, cfg.Config)
	return &Registry{r, cfg, kind}, err
}

// Replaces reports whether a lease takes the place of the known one, which came to be known at
// that time of time.Now at the latest.
func (r *Registry) Replaces(known, l Lease, since time.Time) bool {
	r.cfg.Judge.See(known, r.ByClock(since))
	return r.cfg.Judge.Replaces(known, l)
}

// ActedApart is Judge.ActedApart.
func (r *Registry) ActedApart(known, l Lease) bool { return r.cfg.Judge.ActedApart(known, l) }

// ByClock returns by the clock that dates leases what was a time of time.Now.
func (r *Registry) ByClock(t time.Time) time.Time { return r.Now().Add(-time.Since(t)) }

// Hold remembers a sealed lease of this peer that stands, since that time of time.Now. It fails
// with the reason for which sealed is refused.
func (r *Registry) Hold(sealed []byte, since time.Time) (Lease, error) {
	l, err := OpenLease(sealed)
	if err != nil {
		return l, err
	}
	if l.Owner != r.cfg.Self {
		return l, fmt.Errorf("%w: %v belongs to %v", ErrNotOwner, l.Subnet, l.Owner)
	}
	r.cfg.Judge.See(l, r.ByClock(since))
	return r.LearnOwn(sealed)
}

// Confirm takes a sealed lease that a peer sent, and returns the best one known of its subnet.
// If nothing is known of that but what peers sent, it asks the DHT; a lease of which the DHT
// knows nothing is taken as it is. It fails with the reason for which sealed is refused, or with
// the DHT's error.
func (r *Registry) Confirm(ctx context.Context, sealed []byte) (Lease, error) {
	l, err := r.Learn(sealed)
	if err != nil {
		return l, err
	}
	e, ok := r.Get(l.Subnet)
	if ok && e.Known() {
		return e.Record, nil
	}
	e, ok, err = r.read(ctx, l.Subnet)
	if err != nil || !ok {
		return l, err
	}
	return e.Record, nil
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
	now := r.Now()
	e, ok := r.Get(subnet)
	if ok && (e.Known() && !e.Record.Expired(now) || now.Sub(e.Asked) < recheck) {
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
	case ok && (e.Won || e.Record.Owner != r.cfg.Self):
		return e.Record, e.Sealed, nil
	case err != nil:
		return Lease{}, nil, err
	}
	return Lease{}, nil, fmt.Errorf("%w: %v", ErrUnowned, subnet)
}

// read asks the DHT and returns the best lease known then. With an error the
// remembered one may still be returned.
func (r *Registry) read(ctx context.Context, subnet netip.Prefix) (entry, bool, error) {
	e, ok, err := r.Read(ctx, subnet)
	if ok {
		e = r.Keep(e)
	}
	return e, ok, err
}
