package overlay

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	ds "github.com/ipfs/go-datastore"
	"github.com/libp2p/go-libp2p/core/peer"
)

// A record holder signs of some records, by their validator, that they were the first under their
// key: of one of those that come within boundFor, whatever becomes of it. It writes down which one
// before it signs.

// boundFor is how long a record holder signs no other record. It is much longer than what it has
// signed can be contested.
const boundFor = 10 * time.Minute

// maxReceipt bounds a signature, in bytes. Ed25519 has 64.
const maxReceipt = 64

// stated validators know records of which the first one under a key counts.
type stated interface {
	// Statement returns what is signed of the first record; nil if this cannot be one.
	Statement(value []byte) []byte
	// Signs reports whether a peer, this one, may sign for a valid record.
	Signs(value []byte, self peer.ID) bool
}

// stated returns the validator of a key, if records of its namespace are signed.
func (s *signers) stated(key string) (v stated, ok bool) {
	v, ok = s.validator(key).(stated)
	return v, ok
}

// statement returns what can be signed of a record, nil for others, and whether records of this
// namespace are signed at all.
func (s *signers) statement(key string, value []byte) (text []byte, ok bool) {
	v, ok := s.stated(key)
	if !ok {
		return nil, false
	}
	return v.Statement(value), true
}

// boundKey is where the statement is that was the first one under a key.
func boundKey(key string) ds.Key { return boundKeys.ChildString(dsKey(key).BaseNamespace()) }

var boundKeys = ds.NewKey("/bound")

// bound returns the first statement under a key; nil if none was written down in the last boundFor.
func (l *localRecords) bound(ctx context.Context, key string, now time.Time) ([]byte, error) {
	raw, err := l.store.Get(ctx, boundKey(key))
	if errors.Is(err, ds.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("overlay: read what was first: %w", err)
	}
	if outlived(raw, now) {
		return nil, nil
	}
	return raw[8:], nil
}

// outlived reports whether what is written down binds no more.
func outlived(raw []byte, now time.Time) bool {
	if len(raw) < 8 {
		return true
	}
	at := time.UnixMilli(int64(binary.BigEndian.Uint64(raw)))
	return now.Sub(at) > boundFor || at.Sub(now) > boundFor // the clock may have been set
}

// bind writes down which of two records was the first one: held, if there is one, or val. The
// caller holds the lock of key, and has stored val.
func (l *localRecords) bind(ctx context.Context, key string, held, val []byte) error {
	text, ok := l.signers.statement(key, val)
	if !ok {
		return nil
	}
	if held != nil {
		before, _ := l.signers.statement(key, held)
		if bytes.Equal(before, text) {
			return nil // a renewal
		}
		text = before
	}
	now := time.Now()
	if first, err := l.bound(ctx, key, now); err != nil || first != nil {
		return err
	}
	raw := binary.BigEndian.AppendUint64(nil, uint64(now.UnixMilli()))
	if err := l.store.Put(ctx, boundKey(key), append(raw, text...)); err != nil {
		return fmt.Errorf("overlay: write what was first: %w", err)
	}
	return nil
}

// first returns the statement of a valid record if no other was the first one under its key, or
// nil.
func (l *localRecords) first(ctx context.Context, key string, val []byte) ([]byte, error) {
	text, ok := l.signers.statement(key, val)
	if !ok || text == nil {
		return nil, nil
	}
	mu := l.lock(dsKey(key))
	mu.Lock()
	defer mu.Unlock()
	first, err := l.bound(ctx, key, time.Now())
	if err != nil {
		return nil, err
	}
	if first == nil {
		held, err := l.get(ctx, key)
		if held == nil || err != nil {
			return nil, err
		}
		if first, _ = l.signers.statement(key, held); bytes.Equal(first, text) {
			return text, l.bind(ctx, key, nil, val)
		}
	}
	if !bytes.Equal(first, text) {
		return nil, nil
	}
	return text, nil
}

// receipt signs that a valid record that came was the first one under its key; nil if it was not.
func (v *Values) receipt(ctx context.Context, key string, val []byte) ([]byte, error) {
	text, err := v.local.first(ctx, key, val)
	if text == nil || err != nil {
		return nil, err
	}
	h := v.holders.host
	if by, _ := v.local.signers.stated(key); !by.Signs(val, h.ID()) {
		return nil, nil
	}
	sig, err := h.Peerstore().PrivKey(h.ID()).Sign(text)
	if err != nil || len(sig) > maxReceipt {
		return nil, err
	}
	return sig, nil
}

// Receipts sends a record to some peers, and returns the signatures of those that have signed that
// it was the first one under key. They are not checked. It returns at the end of ctx at the latest.
// This peer, which may be one of them, holds the record first.
func (v *Values) Receipts(
	ctx context.Context, key string, val []byte, from []peer.ID,
) map[peer.ID][]byte {
	all := map[peer.ID][]byte{}
	if held, err := v.local.put(ctx, key, val); err != nil || !held {
		return all
	}
	var mu sync.Mutex
	var wait sync.WaitGroup
	for _, p := range from {
		wait.Go(func() {
			sig, err := v.holders.receipt(ctx, p, key, val)
			if err != nil || len(sig) == 0 || len(sig) > maxReceipt {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			all[p] = sig
		})
	}
	wait.Wait()
	return all
}

// receipt asks p for a receipt.
func (r *holders) receipt(ctx context.Context, p peer.ID, key string, val []byte) ([]byte, error) {
	a, err := r.request(ctx, p, recordRequest{Key: key, Record: val, Sign: true})
	return a.Receipt, err
}
