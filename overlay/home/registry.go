package home

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"peerd/overlay/record"
)

// fresh is the age below which a record that was found may still be settling, by
// clocks that differ by some seconds.
const fresh = 10 * time.Second

// recent is how long what the DHT said of a host is relied on by who is about to
// crawl it.
const recent = time.Minute

// Config configures a Registry.
type Config = record.Config

// DefaultConfig returns a Config that lacks Self, Key and Values.
func DefaultConfig() Config {
	return Config{Settle: 1500 * time.Millisecond, CacheSize: 1 << 17}
}

// Registry is one peer's view of which host belongs where. It is safe for concurrent use and
// starts nothing.
type Registry struct {
	*record.Register[string, Record]
	cfg Config
}

type entry = record.Entry[Record]

// NewRegistry returns a Registry that knows no home yet.
func NewRegistry(cfg Config) (*Registry, error) {
	r, err := record.New(typeFor(cfg.Network), cfg)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
	}
	return &Registry{r, cfg}, nil
}

// Settle returns the home of host as the DHT had it at most a minute ago: homes move,
// and the caller is about to crawl the host. If there is none it writes subnet, waits
// for Config.Settle, and reads back which record won; it also waits for a record that
// another peer wrote just now. The result may differ from subnet. It fails with ErrHost,
// ErrSubnet, record.ErrContested, or the DHT's error. Concurrent calls for one host agree, but
// each has to wait; so does a call for a record of this peer that it does not remember.
func (r *Registry) Settle(
	ctx context.Context, host string, subnet netip.Prefix,
) (netip.Prefix, error) {
	return r.SettleChosen(ctx, host, func(context.Context) (netip.Prefix, error) {
		return subnet, nil
	})
}

// SettleChosen is Settle that calls choose for the subnet if there is no record. It fails with the
// error of choose, too.
func (r *Registry) SettleChosen(
	ctx context.Context, host string, choose func(context.Context) (netip.Prefix, error),
) (netip.Prefix, error) {
	if err := checkHost(host); err != nil {
		return netip.Prefix{}, err
	}
	if p, ok := literalHome(host); ok {
		return p, nil
	}
	if e, ok := r.Get(host); ok && r.Now().Sub(e.Asked) < recent {
		return e.Record.Subnet, nil
	}
	turn, err := r.Enter(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	defer turn.Leave()
	e, ok, err := r.Register.Read(ctx, host)
	if err == nil && ok && r.settling(e) {
		if err := r.Pause(ctx, turn); err != nil {
			return netip.Prefix{}, fmt.Errorf("home: settle %s: %w", host, err)
		}
		e, ok, err = r.Register.Read(ctx, host)
	}
	switch {
	case err != nil:
		return netip.Prefix{}, err
	case ok && e.Record.Epoch == 1 && e.Record.By == r.cfg.Self:
		// Perhaps from a write that failed half-way.
		return r.write(ctx, turn, e.Record, e.Sealed)
	case ok: // a move needs no settling: only its signer may make it
		return r.Keep(e).Record.Subnet, nil
	}
	chosen, err := choose(ctx)
	if err != nil {
		return netip.Prefix{}, err
	}
	own := Record{Network: r.cfg.Network, Host: host, Subnet: chosen, By: r.cfg.Self,
		Issued: r.Now(), Epoch: 1}
	sealed, err := Seal(own, r.cfg.Key)
	if err != nil {
		return netip.Prefix{}, err
	}
	return r.write(ctx, turn, own, sealed)
}

// settling reports whether e is a first record of another peer that may lose to a rival.
func (r *Registry) settling(e entry) bool {
	return e.Record.Epoch == 1 && e.Record.By != r.cfg.Self && r.Now().Sub(e.Record.Issued) < fresh
}

// write settles a record, and returns the home that stands afterwards.
func (r *Registry) write(
	ctx context.Context, turn *record.Turn, own Record, sealed []byte,
) (netip.Prefix, error) {
	e, err := r.Register.Settle(ctx, turn, own, sealed)
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("home: settle %s: %w", own.Host, err)
	}
	return e.Record.Subnet, nil
}

// Cached returns the home of host if it is in memory or host is an IP literal.
func (r *Registry) Cached(host string) (netip.Prefix, bool) {
	if p, ok := literalHome(host); ok {
		return p, true
	}
	e, ok := r.Get(host)
	return e.Record.Subnet, ok
}
