package node

import (
	"context"
	"errors"

	ds "github.com/ipfs/go-datastore"
	"github.com/ipfs/go-datastore/query"

	"peerd/store"
)

// recordStore keeps the DHT records in the store of the peer, so that it still holds them after
// a restart.
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
	return r.db.Batch(func(tx *store.Tx) error { return tx.PutData(k.String(), val) })
}

func (r recordStore) Delete(_ context.Context, k ds.Key) error {
	return r.db.Batch(func(tx *store.Tx) error { return tx.DeleteData(k.String()) })
}

// Query returns the matching records one by one, so that a large DHT does not fill the memory. The
// store is read until the results are closed.
func (r recordStore) Query(_ context.Context, q query.Query) (query.Results, error) {
	return query.NaiveQueryApply(q, query.ResultsWithContext(q,
		func(ctx context.Context, out chan<- query.Result) {
			err := r.db.View(func(tx *store.Tx) error {
				return tx.EachData(ds.NewKey(q.Prefix).String(), func(key string, val []byte) (bool,
					error) {
					e := query.Entry{Key: key, Value: val, Size: len(val)}
					select {
					case out <- query.Result{Entry: e}:
						return true, nil
					case <-ctx.Done():
						return false, ctx.Err()
					}
				})
			})
			if err != nil && ctx.Err() == nil {
				select {
				case out <- query.Result{Error: err}:
				case <-ctx.Done():
				}
			}
		})), nil
}

func (r recordStore) Batch(context.Context) (ds.Batch, error) { return ds.NewBasicBatch(r), nil }
func (r recordStore) Sync(context.Context, ds.Key) error      { return nil }

// the node closes the store
func (r recordStore) Close() error { return nil }
