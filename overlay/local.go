package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	record "github.com/libp2p/go-libp2p-record"
	recpb "github.com/libp2p/go-libp2p-record/pb"
	"github.com/multiformats/go-base32"
	"google.golang.org/protobuf/proto"
)

// sweepEvery is how often records that are worth nothing any more are removed:
// the DHT itself removes them only when somebody asks for them.
const sweepEvery = time.Hour

// local is this peer's own copies of records, in the form and under the keys
// that kad-dht uses, so that they are served to other peers. Nothing here is
// locked against kad-dht's own writes: at worst one replica is a record behind
// until the next renewal, as any replica may be.
type local struct {
	store     ds.Batching
	validator record.Validator
	age       time.Duration
}

// dsKey is where kad-dht keeps the record of a key.
func dsKey(key string) ds.Key {
	return ds.NewKey(base32.RawStdEncoding.EncodeToString([]byte(key)))
}

// get returns the valid value held under key, or nil.
func (l *local) get(ctx context.Context, key string) ([]byte, error) {
	raw, err := l.store.Get(ctx, dsKey(key))
	if errors.Is(err, ds.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("overlay: read record: %w", err)
	}
	var rec recpb.Record
	if proto.Unmarshal(raw, &rec) != nil || string(rec.GetKey()) != key {
		return nil, nil // not a record of ours: as good as none
	}
	if l.validator.Validate(key, rec.GetValue()) != nil {
		return nil, nil
	}
	return rec.GetValue(), nil
}

// put stores val unless what is held is better; it reports whether val is held
// now. Storing the same again renews the time it counts from.
func (l *local) put(ctx context.Context, key string, val []byte) (bool, error) {
	held, err := l.get(ctx, key)
	if err != nil {
		return false, err
	}
	if held != nil && !bytes.Equal(held, val) {
		better, err := l.better(key, val, held)
		if err != nil || !better {
			return false, err
		}
	}
	rec := record.MakePutRecord(key, val)
	rec.TimeReceived = time.Now().UTC().Format(time.RFC3339Nano)
	raw, err := proto.Marshal(rec)
	if err != nil {
		return false, fmt.Errorf("overlay: encode record: %w", err)
	}
	if err := l.store.Put(ctx, dsKey(key), raw); err != nil {
		return false, fmt.Errorf("overlay: store record: %w", err)
	}
	return true, nil
}

// better reports whether a is to be preferred to b, or is as good.
func (l *local) better(key string, a, b []byte) (bool, error) {
	i, err := l.validator.Select(key, [][]byte{a, b})
	if err != nil {
		return false, fmt.Errorf("overlay: compare records: %w", err)
	}
	return i == 0, nil
}

// run sweeps now and then until ctx ends.
func (l *local) run(ctx context.Context, log *slog.Logger) error {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			n, err := l.sweep(ctx, time.Now())
			if err != nil && ctx.Err() == nil {
				log.Warn("sweeping DHT records failed", "err", err)
			}
			log.Debug("swept DHT records", "removed", n)
		}
	}
}

// sweep removes records that no longer validate or that nobody renewed for too
// long, and returns how many. It leaves everything alone that is no record.
func (l *local) sweep(ctx context.Context, now time.Time) (removed int, err error) {
	res, err := l.store.Query(ctx, query.Query{})
	if err != nil {
		return 0, fmt.Errorf("overlay: list records: %w", err)
	}
	defer func() { err = errors.Join(err, res.Close()) }()
	for entry := range res.Next() {
		if entry.Error != nil {
			return removed, fmt.Errorf("overlay: list records: %w", entry.Error)
		}
		if !l.stale(entry.Entry, now) {
			continue
		}
		if err := l.store.Delete(ctx, ds.RawKey(entry.Key)); err != nil {
			return removed, fmt.Errorf("overlay: remove record: %w", err)
		}
		removed++
	}
	return removed, ctx.Err()
}

// stale reports whether an entry is a record, and worth nothing.
func (l *local) stale(e query.Entry, now time.Time) bool {
	var rec recpb.Record
	if proto.Unmarshal(e.Value, &rec) != nil || dsKey(string(rec.GetKey())).String() != e.Key {
		return false
	}
	received, err := time.Parse(time.RFC3339Nano, rec.GetTimeReceived())
	return err != nil || now.Sub(received) > l.age ||
		l.validator.Validate(string(rec.GetKey()), rec.GetValue()) != nil
}
