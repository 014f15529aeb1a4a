package record

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"

	"peerd/internal/clock"
	"peerd/internal/faults"
)

// ErrKey is returned for a record under a key that is not its own.
var ErrKey = errors.New("record: key does not fit")

// maxWriters bounds the writers of a Register that read and write at the same time. Any number
// may be waiting in Settle.
const maxWriters = 24

// Rules are what a Register has to know of records R with keys K. All methods but Replaces are
// pure.
type Rules[K comparable, R any] interface {
	// Namespace is the part of the DHT's key space that the records are in.
	Namespace() string
	// KeyOf returns the key of a record.
	KeyOf(R) K
	// Open checks a sealed record, without a clock.
	Open(sealed []byte) (R, error)
	// CheckTime reports whether a record is acceptable at a time.
	CheckTime(R, time.Time) error
	// Better orders records of one key: positive if a is better than b, negative if b is, zero
	// only if both say the same. It is a total order.
	Better(a, b R) int
	// Replaces reports whether a record takes the place of the known one; it may know what this
	// peer has seen.
	Replaces(known, r R) bool
	// Same reports whether neither of two records of a key ends what the other one allows.
	Same(a, b R) bool
	// Void reports that a record says nothing any more.
	Void(R, time.Time) bool
	// MaxKept is the size of the largest sealed record that is kept in memory, in bytes; larger
	// ones have to be read again. 0: all are kept.
	MaxKept() int
}

// Type is the type of the records of some Rules.
type Type[K comparable, R any] struct{ Rules[K, R] }

// Key returns the DHT key of the record of k: /Namespace/k.
func (t *Type[K, R]) Key(k K) string { return fmt.Sprintf("/%s/%v", t.Namespace(), k) }

// Rivals reports whether a takes the place of b and ends what b allows.
func (t *Type[K, R]) Rivals(a, b R) bool { return !t.Same(a, b) && t.Replaces(b, a) }

// Validate checks a value of the DHT. It fails with ErrKey and the errors of Open and CheckTime.
func (t *Type[K, R]) Validate(key string, value []byte, now time.Time) (R, error) {
	r, err := t.Open(value)
	if err == nil && t.Key(t.KeyOf(r)) != key {
		err = fmt.Errorf("%w: %.80q holds the record of %v", ErrKey, key, t.KeyOf(r))
	}
	if err == nil {
		err = t.CheckTime(r, now)
	}
	return r, err
}

// Select returns the index of the best value: by Better, then by bytes; the first of identical
// ones, so that a value put again counts as accepted. What cannot be opened loses; if nothing
// can, that is an error. It uses no clock, so that every record holder selects alike.
func (t *Type[K, R]) Select(values [][]byte) (int, error) {
	var best R
	at := -1
	for i, val := range values {
		r, err := t.Open(val)
		if err != nil {
			continue
		}
		if at >= 0 {
			c := t.Better(r, best)
			if c == 0 {
				c = bytes.Compare(val, values[at])
			}
			if c <= 0 {
				continue
			}
		}
		best, at = r, i
	}
	if at < 0 {
		return 0, fmt.Errorf("record: no valid record among %d", len(values))
	}
	return at, nil
}

// Config configures a Register.
type Config struct {
	// Network identifies the network of the records.
	Network string
	// Self is this peer and Key its private key. Both are required.
	Self peer.ID
	Key  crypto.PrivKey
	// Values is the DHT. Required.
	Values Values
	// Settle is the wait between writing a record and reading it back. It has to outlast a
	// lookup and a write of a rival: 0.5 s each where round trips are up to 240 ms. 0: no wait.
	Settle time.Duration
	// CacheSize bounds the records in memory, and their sealed forms to 1 KiB each on average. What
	// only peers sent is forgotten first, and what this peer wrote last.
	CacheSize int
	// Clock dates records and checks their dates.
	Clock clock.Clock
	// Logger receives log records about records that should not exist. Nil discards them.
	Logger *slog.Logger
}

// Validate returns all faults of c, joined.
func (c Config) Validate() error {
	f := faults.Of("record")
	f.If(c.Key == nil, "Key is missing")
	f.If(c.Key != nil && !c.Self.MatchesPrivateKey(c.Key), "Key is not that of Self %v", c.Self)
	f.If(c.Values == nil, "Values is missing")
	f.If(c.Settle < 0 || c.Settle > time.Minute, "Settle is %v, want 0 to 1m", c.Settle)
	f.If(c.CacheSize < 1, "CacheSize is %d, want at least 1", c.CacheSize)
	return f.Err()
}

// Entry is a record and what this peer knows about it.
type Entry[R any] struct {
	Record R
	// Sealed is the signed form; nil if it is too large to be kept. Read only.
	Sealed []byte
	// Asked is when the DHT was last asked about the key. Zero: never.
	Asked time.Time
	// Won means that this peer wrote the record, or one that is the Same, and that it stood.
	Won bool
}

// Known reports that the record is more than hearsay: this peer wrote it, or one that it found in
// the DHT was this one or was replaced by it.
func (e Entry[R]) Known() bool { return e.Won || !e.Asked.IsZero() }

// Register is one peer's view of the records of a Type. It starts nothing. Packages that build
// on it embed it; Read, Keep, Enter, Settle and Publish are for them.
type Register[K comparable, R any] struct {
	kind *Type[K, R]
	cfg  Config
	gate *semaphore.Weighted

	mu    sync.Mutex // never held during I/O
	cache *memory[K, R]
}

// New returns a Register that knows no record yet. It fails like Config.Validate.
func New[K comparable, R any](t *Type[K, R], cfg Config) (*Register[K, R], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Register[K, R]{kind: t, cfg: cfg, cache: newMemory[K, R](cfg.CacheSize),
		gate: semaphore.NewWeighted(maxWriters)}, nil
}

// Now returns the time by the clock of r.
func (r *Register[K, R]) Now() time.Time { return r.cfg.Clock.Now() }

// Learn takes a sealed record that did not come through the DHT, and returns the best one known
// of its key, which need not be this one. It fails with the reason for which sealed is refused.
func (r *Register[K, R]) Learn(sealed []byte) (R, error) {
	e, err := r.open(sealed)
	if err != nil {
		return e.Record, err
	}
	return r.Keep(e).Record, nil
}

// Weigh is Learn for a record that must not be remembered as hearsay: if no more than that is known
// of its key, known is false, nothing is remembered, and the record is returned as it is.
func (r *Register[K, R]) Weigh(sealed []byte) (best R, known bool, err error) {
	e, err := r.open(sealed)
	if err != nil {
		return e.Record, false, err
	}
	if old, ok := r.Get(r.kind.KeyOf(e.Record)); !ok || !old.Known() {
		return e.Record, false, nil
	}
	return r.Keep(e).Record, true, nil
}

// LearnOwn is Learn for a record that this peer wrote, and that stood.
func (r *Register[K, R]) LearnOwn(sealed []byte) (R, error) {
	e, err := r.open(sealed)
	if err != nil {
		return e.Record, err
	}
	e.Won = true
	return r.Keep(e).Record, nil
}

// Doubt makes what is remembered of k hearsay, which gives way to what the DHT has.
func (r *Register[K, R]) Doubt(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.cache.get(k); ok && !e.Won {
		e.Asked = time.Time{}
		r.cache.put(k, e)
	}
}

// Cached returns the best record of k in memory.
func (r *Register[K, R]) Cached(k K) (R, bool) {
	e, ok := r.Get(k)
	return e.Record, ok
}

// Sealed returns the signed form of what Cached returns, if it is kept. Read only.
func (r *Register[K, R]) Sealed(k K) ([]byte, bool) {
	e, ok := r.Get(k)
	return e.Sealed, ok && e.Sealed != nil
}

// Forget removes what is remembered of k.
func (r *Register[K, R]) Forget(k K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cache.remove(k)
}

// Get returns what is remembered of k, unless it is void.
func (r *Register[K, R]) Get(k K) (Entry[R], bool) {
	now := r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(k, now)
}

// get is Get; the caller holds mu.
func (r *Register[K, R]) get(k K, now time.Time) (Entry[R], bool) {
	e, ok := r.cache.get(k)
	if !ok || r.kind.Void(e.Record, now) {
		return Entry[R]{}, false
	}
	return e, true
}

// Keep remembers e unless a better record is remembered, and returns the entry that stays.
func (r *Register[K, R]) Keep(e Entry[R]) Entry[R] {
	k, now := r.kind.KeyOf(e.Record), r.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := r.kind.MaxKept(); n > 0 && len(e.Sealed) > n {
		e.Sealed = nil
	}
	if old, ok := r.get(k, now); ok {
		won := r.kind.Same(old.Record, e.Record) && (old.Won || e.Won)
		if !r.gives(old, e) {
			e.Record, e.Sealed, e.Won = old.Record, old.Sealed, old.Won
		}
		e.Won = e.Won || won
		if old.Asked.After(e.Asked) {
			e.Asked = old.Asked
		}
	}
	r.cache.put(k, e)
	return e
}

// gives reports whether the remembered record gives way to another one. Hearsay gives way to what
// is known, unless that is replaced by it.
func (r *Register[K, R]) gives(old, e Entry[R]) bool {
	if !old.Known() && e.Known() {
		return !r.kind.Replaces(e.Record, old.Record)
	}
	return r.kind.Replaces(old.Record, e.Record)
}

// Read asks the DHT, and returns the best record known then, with Asked set. It does not
// remember it. With an error of the DHT the remembered record is returned, if there is one.
func (r *Register[K, R]) Read(ctx context.Context, k K) (e Entry[R], ok bool, err error) {
	value, err := Get(ctx, r.cfg.Values, r.kind.Key(k))
	if value != nil {
		e, ok = r.found(k, value)
	}
	if old, known := r.Get(k); known && (!ok || !r.gives(old, e)) {
		if !ok && !old.Known() {
			return old, true, err // the DHT does not confirm it
		}
		e, ok = old, true
	}
	e.Asked = r.Now()
	return e, ok, err
}

// Value reads the sealed record of k from the DHT. Nil without an error means that there is none.
func (r *Register[K, R]) Value(ctx context.Context, k K) ([]byte, error) {
	return Get(ctx, r.cfg.Values, r.kind.Key(k))
}

// Enter waits until fewer writers than allowed read and write. The caller calls Leave.
func (r *Register[K, R]) Enter(ctx context.Context) (*Turn, error) {
	t := &Turn{gate: r.gate}
	return t, t.enter(ctx)
}

// Pause gives the place away for Config.Settle.
func (r *Register[K, R]) Pause(ctx context.Context, turn *Turn) error {
	return turn.pause(ctx, r.cfg.Settle)
}

// Settle writes a record where a rival may be written too: it waits until concurrent writers
// must have met it at the record holders, and reads back. It returns the record that stands:
// this one, or a rival. The caller has entered before it read that there is no better record,
// unless turn is nil. It fails with ErrContested, or with the error of Values; then the
// record may have been written and still win later.
func (r *Register[K, R]) Settle(
	ctx context.Context, turn *Turn, own R, sealed []byte,
) (Entry[R], error) {
	return r.write(own, sealed, func(key string, beats func([]byte) bool) error {
		_, err := settle(ctx, turn, r.cfg.Values, key, sealed, r.cfg.Settle, beats)
		return err
	})
}

// Publish writes a record that outranks what may be there, and reads only if a record holder
// refused it. The result is that of Settle.
func (r *Register[K, R]) Publish(ctx context.Context, own R, sealed []byte) (Entry[R], error) {
	return r.write(own, sealed, func(key string, beats func([]byte) bool) error {
		_, err := publish(ctx, r.cfg.Values, key, sealed, beats)
		return err
	})
}

// write has put bring a record to the DHT, and remembers what stands then.
func (r *Register[K, R]) write(
	own R, sealed []byte, put func(key string, beats func([]byte) bool) error,
) (Entry[R], error) {
	k := r.kind.KeyOf(own)
	if e, ok := r.Get(k); ok && r.kind.Rivals(e.Record, own) {
		return e, nil
	}
	err := put(r.kind.Key(k), func(found []byte) bool {
		e, ok := r.found(k, found)
		return ok && r.kind.Rivals(r.Keep(e).Record, own)
	})
	if err != nil {
		return Entry[R]{}, err
	}
	// A rival that was found is remembered, and stays.
	return r.Keep(Entry[R]{Record: own, Sealed: sealed, Asked: r.Now(), Won: true}), nil
}

// open checks a sealed record against the clock too.
func (r *Register[K, R]) open(sealed []byte) (Entry[R], error) {
	rec, err := r.kind.Open(sealed)
	if err == nil {
		err = r.kind.CheckTime(rec, r.Now())
	}
	if err != nil {
		return Entry[R]{}, err
	}
	return Entry[R]{Record: rec, Sealed: sealed}, nil
}

// found opens a value read from the DHT under the key of k. Record holders validate what they
// store, but one may lie.
func (r *Register[K, R]) found(k K, value []byte) (Entry[R], bool) {
	e, err := r.open(value)
	if err == nil && r.kind.KeyOf(e.Record) != k {
		err = ErrKey
	}
	if err != nil {
		r.cfg.Logger.Warn("ignored invalid record from the DHT", "key", r.kind.Key(k), "err", err)
		return Entry[R]{}, false
	}
	e.Asked = r.Now()
	return e, true
}
