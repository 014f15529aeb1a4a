package overlay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"sync"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"
	kb "github.com/libp2p/go-libp2p-kbucket"
	record "github.com/libp2p/go-libp2p-record"
	recpb "github.com/libp2p/go-libp2p-record/pb"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/multiformats/go-base32"
	"google.golang.org/protobuf/proto"

	"peerd/internal/backoff"
)

// sweepInterval is how often worthless records are removed: the DHT itself removes them
// only when it is asked for them.
const sweepInterval = time.Hour

// localRecords are the records that this peer itself holds, and which of them were the first under
// their key (receipts.go).
type localRecords struct {
	store     ds.Batching
	validator record.Validator
	age       time.Duration
	signers   *signers // counted again at each sweep
	self      peer.ID
	k         int // numHolders
	table     *kb.RoutingTable
	puts      [64]sync.Mutex // by key, so that of two puts at once the better record stays
}

// dsKey is where the record of a key is.
func dsKey(key string) ds.Key {
	return ds.NewKey(base32.RawStdEncoding.EncodeToString([]byte(key)))
}

// get returns the valid value held under key, or nil.
func (l *localRecords) get(ctx context.Context, key string) ([]byte, error) {
	rec, err := l.load(ctx, key)
	return rec.GetValue(), err
}

// served returns what other peers are told of key: the valid value if it was renewed in the last
// age, or nil.
func (l *localRecords) served(ctx context.Context, key string, now time.Time) ([]byte, error) {
	rec, err := l.load(ctx, key)
	if err != nil || rec == nil || l.outdated(rec, now) {
		return nil, err
	}
	return rec.GetValue(), nil
}

// load returns the record held under key if its value is valid, or nil.
func (l *localRecords) load(ctx context.Context, key string) (*recpb.Record, error) {
	raw, err := l.store.Get(ctx, dsKey(key))
	if errors.Is(err, ds.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("overlay: read record: %w", err)
	}
	rec := &recpb.Record{}
	valid := proto.Unmarshal(raw, rec) == nil && string(rec.GetKey()) == key &&
		l.validator.Validate(key, rec.GetValue()) == nil
	if !valid {
		return nil, nil
	}
	return rec, nil
}

// outdated reports whether a record was not renewed for too long.
func (l *localRecords) outdated(rec *recpb.Record, now time.Time) bool {
	received, err := time.Parse(time.RFC3339Nano, rec.GetTimeReceived())
	return err != nil || now.Sub(received) > l.age
}

// put stores val unless the record held is better, and reports whether val is held
// now. Storing the same value again renews its age.
func (l *localRecords) put(ctx context.Context, key string, val []byte) (bool, error) {
	mu := l.lock(dsKey(key))
	mu.Lock()
	defer mu.Unlock()
	held, err := l.get(ctx, key)
	if err != nil {
		return false, err
	}
	return l.replace(ctx, key, held, val)
}

// errFar is returned for a record that other peers are to hold.
var errFar = errors.New("overlay: other peers are nearer to the key")

// offer is put for what another peer sends: if this peer is near enough to the key that an honest
// one would have found it, and the signer of a new record has not too many.
func (l *localRecords) offer(ctx context.Context, key string, val []byte) (bool, error) {
	if !l.near(key) {
		return false, errFar
	}
	mu := l.lock(dsKey(key))
	mu.Lock()
	defer mu.Unlock()
	held, err := l.get(ctx, key)
	if err == nil && held == nil {
		err = l.signers.take(key, val)
	}
	if err != nil {
		return false, err
	}
	return l.replace(ctx, key, held, val)
}

// near reports whether this peer is to hold the record of a key.
func (l *localRecords) near(key string) bool {
	others := l.table.NearestPeers(kb.ConvertKey(key), nearFactor*l.k)
	return len(others) < nearFactor*l.k || kb.Closer(l.self, others[len(others)-1], key)
}

// replace is put for a key that the caller has locked, and under which held is held; nil: nothing.
func (l *localRecords) replace(ctx context.Context, key string, held, val []byte) (bool, error) {
	if held != nil && !bytes.Equal(held, val) {
		better, err := l.signers.replaces(key, held, val)
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
	return true, l.bind(ctx, key, held, val)
}

// lock returns what is held while the record at a key of the store changes, or what is bound to it.
func (l *localRecords) lock(at ds.Key) *sync.Mutex {
	return &l.puts[crc32.ChecksumIEEE([]byte(at.BaseNamespace()))%uint32(len(l.puts))]
}

// better reports whether a is better than b, or as good. Neither needs to be held here.
func (l *localRecords) better(key string, a, b []byte) (bool, error) {
	i, err := l.validator.Select(key, [][]byte{a, b})
	if err != nil {
		return false, fmt.Errorf("overlay: compare records: %w", err)
	}
	return i == 0, nil
}

// run sweeps at once and every sweepInterval until ctx ends.
func (l *localRecords) run(ctx context.Context, log *slog.Logger) error {
	for {
		n, err := l.sweep(ctx, time.Now())
		if err != nil && ctx.Err() == nil {
			log.Warn("failed to sweep DHT records", "err", err)
		}
		log.Debug("swept DHT records", "removed", n)
		if backoff.Sleep(ctx, sweepInterval) != nil {
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
}

// sweep removes records that are no longer valid, or were not renewed for too long, and
// returns how many. It counts the others by signer, and does not touch entries that are not
// records.
func (l *localRecords) sweep(ctx context.Context, now time.Time) (removed int, err error) {
	res, err := l.store.Query(ctx, query.Query{})
	if err != nil {
		return 0, fmt.Errorf("overlay: list records: %w", err)
	}
	defer func() { err = errors.Join(err, res.Close()) }()
	total := map[peer.ID]int{}
	for entry := range res.Next() {
		if entry.Error != nil {
			return removed, fmt.Errorf("overlay: list records: %w", entry.Error)
		}
		rec, stale := l.stale(entry.Entry, now)
		if at := ds.RawKey(entry.Key); at.IsDescendantOf(boundKeys) {
			rec, stale = nil, outlived(entry.Value, now)
		}
		if !stale {
			if id := l.signers.of(string(rec.GetKey()), rec.GetValue()); id != "" {
				total[id]++
			}
			continue
		}
		gone, err := l.remove(ctx, entry.Entry)
		if err != nil {
			return removed, fmt.Errorf("overlay: remove record: %w", err)
		}
		if gone {
			removed++
		}
	}
	if ctx.Err() == nil {
		l.signers.recount(total)
	}
	return removed, ctx.Err()
}

// remove removes an entry, unless it was replaced since it was listed, which may be minutes ago. It
// reports whether it has.
func (l *localRecords) remove(ctx context.Context, e query.Entry) (bool, error) {
	at := ds.RawKey(e.Key)
	mu := l.lock(at)
	mu.Lock()
	defer mu.Unlock()
	raw, err := l.store.Get(ctx, at)
	switch {
	case errors.Is(err, ds.ErrNotFound), err == nil && !bytes.Equal(raw, e.Value):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, l.store.Delete(ctx, at)
}

// stale reports whether an entry is a record that is to be removed. The record is nil if it is
// none.
func (l *localRecords) stale(e query.Entry, now time.Time) (*recpb.Record, bool) {
	rec := &recpb.Record{}
	if proto.Unmarshal(e.Value, rec) != nil || dsKey(string(rec.GetKey())).String() != e.Key {
		return nil, false
	}
	return rec, l.outdated(rec, now) ||
		l.validator.Validate(string(rec.GetKey()), rec.GetValue()) != nil
}
