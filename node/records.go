package node

import (
	"context"
	"errors"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"

	"peerd/store"
)

// recordStore keeps the DHT's records in the peer's own store, so that a
// replica still has them after a restart.
type recordStore struct{ db *store.DB }

var _ ds.Batching = recordStore{}

func (r recordStore) Get(_ context.Context, k ds.Key) (val []byte, err error) {
	err = r.db.View(func(tx *store.Tx) error {
		val, err = tx.Data(k.String())
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, ds.ErrNotFound
	}
	return val, err
}

func (r recordStore) Has(ctx context.Context, k ds.Key) (bool, error) {
	return ds.GetBackedHas(ctx, r, k)
}

func (r recordStore) GetSize(ctx context.Context, k ds.Key) (int, error) {
	return ds.GetBackedSize(ctx, r, k)
}

func (r recordStore) Put(_ context.Context, k ds.Key, val []byte) error {
	return r.db.Update(func(tx *store.Tx) error { return tx.PutData(k.String(), val) })
}

func (r recordStore) Delete(_ context.Context, k ds.Key) error {
	return r.db.Update(func(tx *store.Tx) error { return tx.DeleteData(k.String()) })
}

// Query reads all that matches into memory: the DHT asks for it in its rare
// housekeeping only.
func (r recordStore) Query(_ context.Context, q query.Query) (query.Results, error) {
	var all []query.Entry
	err := r.db.View(func(tx *store.Tx) error {
		return tx.EachData(ds.NewKey(q.Prefix).String(), func(key string, val []byte) (bool, error) {
			all = append(all, query.Entry{Key: key, Value: val, Size: len(val)})
			return true, nil
		})
	})
	if err != nil {
		return nil, err
	}
	return query.NaiveQueryApply(q, query.ResultsWithEntries(q, all)), nil
}

func (r recordStore) Batch(context.Context) (ds.Batch, error) { return ds.NewBasicBatch(r), nil }
func (r recordStore) Sync(context.Context, ds.Key) error      { return nil }
func (r recordStore) Close() error                            { return nil } // the node closes the store
