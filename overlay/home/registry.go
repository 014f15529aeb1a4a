package home

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

// ErrContested is returned when replicas refused a record but none of them
// showed a better one. Trying again after some seconds is right.
var ErrContested = register.ErrContested

// fresh is the age below which a record that was found may still be settling, by
// clocks that differ by some seconds.
const fresh = 10 * time.Second

// Values is the DHT as homes see it; see register.Values for what it owes.
type Values = register.Values

// Config holds what a Registry works with.
type Config struct {
	// Self is this peer; required, and Key is its private key.
	Self peer.ID
	Key  crypto.PrivKey
	// Values is the DHT; required.
	Values Values
	// Settle is the wait between writing a record and reading it back; see
	// lease.Config.
	Settle time.Duration
	// CacheSize bounds the homes in memory.
	CacheSize int
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Logger hears of records that should not exist. Nil discards.
	Logger *slog.Logger
}

// DefaultConfig returns a Config that lacks Self, Key and Values.
func DefaultConfig() Config {
	return Config{Settle: 1500 * time.Millisecond, CacheSize: 1 << 17}
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf("home: "+format, args...)) }
	switch {
	case c.Key == nil:
		fault("Key is missing")
	case !c.Self.MatchesPrivateKey(c.Key):
		fault("Key is not that of Self %v", c.Self)
	}
	if c.Values == nil {
		fault("Values is missing")
	}
	if c.Settle < 0 || c.Settle > time.Minute {
		fault("Settle is %v, want 0 to 1m", c.Settle)
	}
	if c.CacheSize < 1 {
		fault("CacheSize is %d, want at least 1", c.CacheSize)
	}
	return errors.Join(errs...)
}

// keepValue is the largest sealed record that is kept in memory; those of moves,
// which carry leases, are read again when they are needed.
const keepValue = 1 << 10

// recent is how long what the DHT said of a host is relied on by who is about to
// crawl it.
const recent = time.Minute

// entry is a record and its signed form.
type entry struct {
	record Record
	sealed []byte    // nil if it is too large to be kept
	asked  time.Time // when the DHT was last asked about the host; zero: never
}

// Registry is one peer's view of which host belongs where. It holds the best
// record seen of each host in bounded memory, and asks the DHT for the rest. It
// may be used by many at once and keeps nothing running.
type Registry struct {
	cfg Config
	now func() time.Time
	log *slog.Logger

	mu    sync.Mutex // never held during I/O
	cache *simplelru.LRU[string, entry]
}

// NewRegistry returns a Registry that knows no home yet.
func NewRegistry(cfg Config) (*Registry, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cache, err := simplelru.NewLRU[string, entry](cfg.CacheSize, nil)
	if err != nil {
		return nil, fmt.Errorf("home: %w", err)
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

// Settle returns the home of host, as the DHT had it a minute ago at most: homes
// move, and whoever asks is about to crawl the host. If there is none it writes
// subnet, waits for Config.Settle, and reads back which record won; it also waits
// for one that somebody else wrote just now. The result may differ from subnet. It
// fails with ErrHost, ErrSubnet, ErrContested, or what the DHT said. Calls for
// one host at once agree, but each costs the wait; so does a record of this
// peer's own that it does not remember.
func (r *Registry) Settle(ctx context.Context, host string, subnet netip.Prefix) (netip.Prefix, error) {
	if err := checkHost(host); err != nil {
		return netip.Prefix{}, err
	}
	if p, ok := literalHome(host); ok {
		return p, nil
	}
	if e, ok := r.get(host); ok && r.now().Sub(e.asked) < recent {
		return e.record.Subnet, nil
	}
	e, ok, err := r.read(ctx, host)
	if ok && e.record.Epoch > 1 { // a move waits for nobody: its signer is the only one who may
		e.asked = r.now()
		return r.keep(e).record.Subnet, nil
	}
	if ok && e.record.By == r.cfg.Self { // perhaps from a write that failed half-way
		return r.write(ctx, e.record, e.sealed)
	}
	if ok && r.now().Sub(e.record.Issued) < fresh {
		if err := register.Pause(ctx, r.cfg.Settle); err != nil {
			return netip.Prefix{}, fmt.Errorf("home: settle %s: %w", host, err)
		}
		e, ok, err = r.read(ctx, host)
	}
	switch {
	case err != nil:
		return netip.Prefix{}, err
	case ok:
		e.asked = r.now()
		return r.keep(e).record.Subnet, nil
	}
	own := Record{Host: host, Subnet: subnet, By: r.cfg.Self, Issued: r.now(), Epoch: 1}
	sealed, err := Seal(own, r.cfg.Key)
	if err != nil {
		return netip.Prefix{}, err
	}
	return r.write(ctx, own, sealed)
}

// read asks the DHT and returns the best that is known now; ok says that there is a
// record.
func (r *Registry) read(ctx context.Context, host string) (e entry, ok bool, err error) {
	value, err := register.Get(ctx, r.cfg.Values, Key(host))
	if err != nil {
		return entry{}, false, err
	}
	old, known := r.get(host)
	if value == nil {
		return old, known, nil // the DHT has lost it
	}
	if e, ok = r.found(host, value); !ok {
		return entry{}, false, nil
	}
	if known && Better(old.record, e.record) > 0 {
		return old, true, nil
	}
	return e, true, nil
}

// write puts a record, and returns the home that stands afterwards.
func (r *Registry) write(ctx context.Context, own Record, sealed []byte) (netip.Prefix, error) {
	stands, err := r.publish(ctx, own, sealed)
	return stands.Subnet, err
}

func (r *Registry) publish(ctx context.Context, own Record, sealed []byte) (Record, error) {
	stands := entry{record: own, sealed: sealed}
	_, err := register.Settle(ctx, r.cfg.Values, Key(own.Host), sealed, r.cfg.Settle, func(found []byte) bool {
		e, ok := r.found(own.Host, found)
		if !ok || Better(e.record, stands.record) <= 0 {
			return false
		}
		stands = e
		return true
	})
	if err != nil {
		return Record{}, fmt.Errorf("home: settle %s: %w", own.Host, err)
	}
	stands.asked = r.now()
	return r.keep(stands).record, nil
}

// Learn takes a signed record that came some other way than through the DHT, and
// returns the best record known of its host, which need not be this one. It fails
// with the reason for which sealed is refused.
func (r *Registry) Learn(sealed []byte) (Record, error) {
	e, err := r.open(sealed)
	if err != nil {
		return Record{}, err
	}
	return r.keep(e).record, nil
}

// Cached returns the home of host if it is in memory or host is an IP literal.
func (r *Registry) Cached(host string) (netip.Prefix, bool) {
	if p, ok := literalHome(host); ok {
		return p, true
	}
	e, ok := r.get(host)
	return e.record.Subnet, ok
}

// Sealed returns the signed record of host if it is in memory, to be shown to
// others; an IP literal needs and has none, and that of a host that has moved is
// not kept. The bytes are shared: read only.
func (r *Registry) Sealed(host string) ([]byte, bool) {
	e, ok := r.get(host)
	return e.sealed, ok && e.sealed != nil
}

func (r *Registry) get(host string) (entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.cache.Get(host)
}

// keep remembers e unless a better record is remembered, and returns the one that
// stays.
func (r *Registry) keep(e entry) entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(e.sealed) > keepValue {
		e.sealed = nil
	}
	if old, ok := r.cache.Get(e.record.Host); ok {
		if old.asked.After(e.asked) {
			e.asked = old.asked
		}
		if Better(old.record, e.record) >= 0 {
			e.record, e.sealed = old.record, old.sealed
		}
	}
	r.cache.Add(e.record.Host, e)
	return e
}

// open checks a signed record against the clock too.
func (r *Registry) open(sealed []byte) (entry, error) {
	rec, err := Open(sealed)
	if err != nil {
		return entry{}, err
	}
	if err := rec.CheckTime(r.now()); err != nil {
		return entry{}, err
	}
	return entry{record: rec, sealed: sealed}, nil
}

// found opens a value read from the DHT under the key of host. Replicas judge what
// they store, but nothing binds one that lies.
func (r *Registry) found(host string, value []byte) (entry, bool) {
	e, err := r.open(value)
	if err == nil && e.record.Host != host {
		err = ErrKey
	}
	if err != nil {
		r.log.Warn("ignored a bad home from the DHT", "host", host, "err", err)
		return entry{}, false
	}
	return e, true
}
