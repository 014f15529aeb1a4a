package store

import (
	"fmt"

	"github.com/klauspost/compress/s2"

	"peerd/store/kv"
)

// maxPage is the maximum size of the record of a page before compression, in bytes.
const maxPage = maxLinkBytes + 1<<20

// storedPage is the form in which a Page is stored: its links are packed, and all of it is
// compressed (S2), because most of it are similar links.
type storedPage struct {
	Page
	Packed []byte `cbor:"11,keyasint,omitempty"` // in place of Page.Links
}

// PageRecord is an encoded Page. It is encoded concurrently, before the transaction.
type PageRecord struct{ key, val []byte }

// Record encodes p for PutRecord.
func (p Page) Record() (PageRecord, error) {
	b, err := encMode.Marshal(storedPage{p, packLinks(p.URL, p.Links)})
	if err != nil {
		return PageRecord{}, fmt.Errorf("store: encode: %w", err)
	}
	return PageRecord{digestKey(spacePage, p.URL.Host(), p.URL.Digest()),
		s2.Encode(nil, b)}, nil
}

// PutRecord stores a page and replaces the record of an earlier fetch of its URL.
func (tx *Tx) PutRecord(r PageRecord) error { return tx.set(r.key, r.val) }

// PutPage encodes and stores a page.
func (tx *Tx) PutPage(p Page) error {
	r, err := p.Record()
	if err != nil {
		return err
	}
	return tx.PutRecord(r)
}

// Page returns the record of the last fetch of u, or ErrNotFound.
func (tx *Tx) Page(u URL) (Page, error) {
	key := digestKey(spacePage, u.Host(), u.Digest())
	it, err := tx.item(key)
	if err != nil {
		return Page{}, err
	}
	return pageOf(key, it)
}

func pageOf(key []byte, it kv.Item) (Page, error) {
	var p storedPage
	err := decodePage(key, it, &p)
	if err != nil {
		return Page{}, err
	}
	if p.Links, err = unpackLinks(p.URL, p.Packed); err != nil {
		return Page{}, fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err)
	}
	return p.Page, nil
}

// decodePage decodes a stored page, or the fields of it that p has.
func decodePage(key []byte, it kv.Item, p any) error {
	return it.Value(func(b []byte) error {
		n, err := s2.DecodedLen(b)
		if err == nil && n > maxPage {
			err = s2.ErrTooLarge
		}
		var raw []byte
		if err == nil {
			raw, err = s2.Decode(nil, b)
		}
		if err != nil {
			return fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err)
		}
		return decode(key, raw, p)
	})
}

// Pages calls fn for every page that this peer fetched, host by host.
func (tx *Tx) Pages(fn func(Page) error) error { return tx.PagesAfter("", fn) }

// PagesAfter is Pages for those behind the page of a URL, whether that exists or not; "" begins
// with the first.
func (tx *Tx) PagesAfter(u URL, fn func(Page) error) error {
	var after []byte
	if u != "" {
		after = digestKey(spacePage, u.Host(), u.Digest())
	}
	return tx.each([]byte{spacePage}, after, true, func(key []byte, it kv.Item) (bool, error) {
		p, err := pageOf(key, it)
		if err != nil {
			return false, err
		}
		return true, fn(p)
	})
}

// PageURLs calls fn for the URL of every page of a host that this peer fetched, in no useful order.
// fn returns false to stop.
func (tx *Tx) PageURLs(host string, fn func(URL) (bool, error)) error {
	return tx.each(hostPrefix(spacePage, host), nil, true,
		func(key []byte, it kv.Item) (bool, error) {
			var p struct {
				URL URL `cbor:"1,keyasint"`
			}
			if err := decodePage(key, it, &p); err != nil {
				return false, err
			}
			return fn(p.URL)
		})
}
