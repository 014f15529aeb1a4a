package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/routing"
)

// ErrContested is returned when replicas refused a record although no better one could
// be read: another peer is writing at this moment, or a replica misbehaves. Retry later.
var ErrContested = errors.New("record: refused by replicas, and no better record found")

// A RefusedError is returned when no replica took a record, because they hold others that do not
// take its place for this peer. Retry later.
type RefusedError struct {
	Held map[peer.ID][]byte // what the replicas hold
}

// Error says how many they are.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("record: %d replicas hold another one", len(e.Held))
}

// rounds is how often settle tries. The second round meets the replicas after
// the read of the first has carried the better record to all of them.
const rounds = 2

// lateWait is the wait of a writer that was late: a winner begins to read again after firstReread
// and a quarter at most, and needs time to read and to stop.
const lateWait = 2 * firstReread

// Values is the DHT as this package sees it. Implementations are safe for
// concurrent use and bound the time of every call, also without a deadline in
// ctx.
type Values interface {
	// Put stores val under key at the replicas and here. It counts the
	// replicas that took it and those that refused because they hold a better
	// one. With no other peer in reach it is 0, 0, nil. If there were no others than
	// replicas that hold another one, which is not better, it fails with *RefusedError.
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
		return nil, fmt.Errorf("record: get %s: %w", key, err)
	}
	if len(val) == 0 {
		return nil, nil
	}
	return val, nil
}

// publish writes val, and reads key only when a replica refused or the write failed. It
// then returns the value found if beats reports that it is better than val; nil means
// that val stands. It fails with ErrContested when all replicas refused and nothing
// better was found, or with the error of Values.
func publish(
	ctx context.Context, v Values, key string, val []byte, beats func(found []byte) bool,
) ([]byte, error) {
	acks, rejects, perr := v.Put(ctx, key, val)
	if perr == nil && rejects == 0 {
		return nil, nil
	}
	rival, gerr := readRival(ctx, v, key, beats)
	switch {
	case rival != nil:
		return rival, nil
	case perr != nil:
		return nil, fmt.Errorf("record: put %s: %w", key, perr)
	case acks > 0:
		return nil, nil
	case gerr != nil:
		return nil, gerr
	}
	return nil, fmt.Errorf("%w: %s", ErrContested, key)
}

// settle writes val where there may be no value yet: it waits until concurrent writers
// must have met it at the replicas, and reads back. The result is that of publish, but a
// single refusal suffices for ErrContested. After an error val may or may not have been
// written.
//
// A writer that has read and written within wait meets all others of that kind. One that was
// later, because a replica was silent, may come after another has read back: it waits for
// lateWait more, in which the other reads again and gives way, if it has to.
//
// If messages are faster than that, at most one of several writers uses its value at a time. It is
// not consensus: in a partition each side has a winner.
func settle(
	ctx context.Context, turn *Turn, v Values, key string, val []byte, wait time.Duration,
	beats func(found []byte) bool,
) ([]byte, error) {
	for range rounds {
		_, rejects, perr := v.Put(ctx, key, val)
		if perr == nil {
			pause := wait
			if wait > 0 && turn.late(wait) {
				pause += lateWait
			}
			if err := turn.pause(ctx, pause); err != nil {
				return nil, err
			}
		}
		rival, gerr := readRival(ctx, v, key, beats)
		switch {
		case rival != nil:
			return rival, nil
		case perr != nil:
			return nil, fmt.Errorf("record: put %s: %w", key, perr)
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
