package store

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"peerd/store/kv"
)

// A page's record is compressed: its out-links are most of it and alike.
var (
	pageEnc, _ = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(128<<10), zstd.WithLowerEncoderMem(true))
	pageDec, _ = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
)

// A PageRecord is a Page ready to be kept. Making one is most of the work, and
// can be done before the transaction, by many at once.
type PageRecord struct{ key, val []byte }

// Record encodes p.
func (p Page) Record() (PageRecord, error) {
	b, err := encMode.Marshal(p)
	if err != nil {
		return PageRecord{}, fmt.Errorf("store: encode: %w", err)
	}
	return PageRecord{digestKey(spacePage, p.URL.Host(), p.URL.Digest()), pageEnc.EncodeAll(b, nil)}, nil
}

// PutRecord keeps a page, in the place of what was kept of its URL before.
func (tx *Tx) PutRecord(r PageRecord) error { return tx.set(r.key, r.val) }

// PutPage is Record and PutRecord in one.
func (tx *Tx) PutPage(p Page) error {
	r, err := p.Record()
	if err != nil {
		return err
	}
	return tx.PutRecord(r)
}

// Page returns what is kept of u, or ErrNotFound.
func (tx *Tx) Page(u URL) (Page, error) {
	key := digestKey(spacePage, u.Host(), u.Digest())
	it, err := tx.t.Get(key)
	if errors.Is(err, kv.ErrNotFound) {
		return Page{}, ErrNotFound
	}
	if err != nil {
		return Page{}, fmt.Errorf("store: read: %w", err)
	}
	return pageOf(key, it)
}

func pageOf(key []byte, it kv.Item) (p Page, err error) {
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
	return tx.each([]byte{spacePage}, nil, true, func(key []byte, it kv.Item) (bool, error) {
		p, err := pageOf(key, it)
		if err != nil {
			return false, err
		}
		return true, fn(p)
	})
}
