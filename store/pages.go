package store

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/klauspost/compress/zstd"
)

// A page's record is compressed: its out-links are most of it and alike.
var (
	pageEnc, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	pageDec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
)

// PutPage keeps a page, in the place of what was kept of its URL before.
func (tx *Tx) PutPage(p Page) error {
	b, err := encMode.Marshal(p)
	if err != nil {
		return fmt.Errorf("store: encode: %w", err)
	}
	return tx.set(digestKey(spacePage, p.URL.Host(), p.URL.Digest()), pageEnc.EncodeAll(b, nil))
}

// Page returns what is kept of u, or ErrNotFound.
func (tx *Tx) Page(u URL) (Page, error) {
	key := digestKey(spacePage, u.Host(), u.Digest())
	it, err := tx.t.Get(key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return Page{}, ErrNotFound
	}
	if err != nil {
		return Page{}, fmt.Errorf("store: read: %w", err)
	}
	return pageOf(key, it)
}

func pageOf(key []byte, it *badger.Item) (p Page, err error) {
	err = it.Value(func(b []byte) error {
		raw, err := pageDec.DecodeAll(b, nil)
		if err != nil {
			return fmt.Errorf("%w: key %q: %v", ErrCorrupt, key, err)
		}
		return decode(key, raw, &p)
	})
	return p, err
}

// Pages calls fn for every page this peer fetched, host by host.
func (tx *Tx) Pages(fn func(Page) error) error {
	return tx.each([]byte{spacePage}, nil, true, func(key []byte, it *badger.Item) (bool, error) {
		p, err := pageOf(key, it)
		if err != nil {
			return false, err
		}
		return true, fn(p)
	})
}
