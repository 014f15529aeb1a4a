package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/routing"
)

// ErrContested is returned when replicas refused a record although no better
// one could be read: somebody else is writing at this moment, or a replica
// misbehaves. Trying again later is right.
var ErrContested = errors.New("register: refused by replicas, and no better record found")

// rounds is how often Settle tries. The second round meets the replicas after
// the read of the first has carried the better record to all of them.
const rounds = 2

// Values is the DHT as this package sees it. Implementations are safe for
// concurrent use and bound the time of every call, also without a deadline in
// ctx.
type Values interface {
	// Put stores val under key at the replicas and here. It counts the
	// replicas that took it and those that refused because they hold a better
	// one. With no other peer in reach it is 0, 0, nil.
	Put(ctx context.Context, key string, val []byte) (acks, rejects int, err error)
	// Get returns the best value in reach, this peer's own copy included. When
	// there is none it returns nil, or an error that wraps
	// routing.ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)
}

// Get reads key; nil without an error means that there is no record.
func Get(ctx context.Context, v Values, key string) ([]byte, error) {
	val, err := v.Get(ctx, key)
	if errors.Is(err, routing.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("register: get %s: %w", key, err)
	}
	if len(val) == 0 {
		return nil, nil
	}
	return val, nil
}

// Publish writes val, and reads key only when a replica refused or the write
// failed. It returns the value found then if beats says that it is better than
// val; nil means that val stands. It fails with ErrContested when everybody
// refused and nothing better was found, or with what Values returned.
func Publish(ctx context.Context, v Values, key string, val []byte, beats func(found []byte) bool) ([]byte, error) {
	acks, rejects, perr := v.Put(ctx, key, val)
	if perr == nil && rejects == 0 {
		return nil, nil
	}
	rival, gerr := readRival(ctx, v, key, beats)
	switch {
	case rival != nil:
		return rival, nil
	case perr != nil:
		return nil, fmt.Errorf("register: put %s: %w", key, perr)
	case acks > 0:
		return nil, nil
	case gerr != nil:
		return nil, gerr
	}
	return nil, fmt.Errorf("%w: %s", ErrContested, key)
}

// Settle writes val where nobody may have written before: it waits until
// others that write at the same time must have met it at the replicas, and reads
// back. The result is that of Publish, but a single refusal is enough for
// ErrContested. An error leaves open whether val was written.
//
// With delays well below wait exactly one of several writers is told that its
// value stands. It is not consensus: in a partition each side has a winner.
func Settle(ctx context.Context, v Values, key string, val []byte, wait time.Duration, beats func(found []byte) bool) ([]byte, error) {
	for range rounds {
		_, rejects, perr := v.Put(ctx, key, val)
		if perr == nil {
			if err := Pause(ctx, wait); err != nil {
				return nil, err
			}
		}
		rival, gerr := readRival(ctx, v, key, beats)
		switch {
		case rival != nil:
			return rival, nil
		case perr != nil:
			return nil, fmt.Errorf("register: put %s: %w", key, perr)
		case gerr != nil:
			return nil, gerr
		case rejects == 0:
			return nil, nil
		}
	}
	return nil, fmt.Errorf("%w: %s", ErrContested, key)
}

// readRival returns the value under key if it beats ours, else nil.
func readRival(ctx context.Context, v Values, key string, beats func([]byte) bool) ([]byte, error) {
	found, err := Get(ctx, v, key)
	if err != nil || found == nil || !beats(found) {
		return nil, err
	}
	return found, nil
}

// Pause waits for d, or returns the cause of ctx's end.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
