package store

import (
	"time"

	"github.com/dgraph-io/badger/v4"
)

// Defer keeps a URL whose host is not (known to be) ours until its owner has
// acknowledged it. It says whether the URL was not waiting already.
func (tx *Tx) Defer(p Pending) (bool, error) {
	key := digestKey(spacePending, p.URL.Host(), p.URL.Digest())
	if ok, err := tx.has(key); err != nil || ok {
		return false, err
	}
	return true, tx.put(key, p)
}

// Deferred calls fn for the URLs that wait for host. fn returns false to end.
func (tx *Tx) Deferred(host string, fn func(Pending) (bool, error)) error {
	return tx.each(hostPrefix(spacePending, host), nil, true, func(key []byte, it *badger.Item) (bool, error) {
		var p Pending
		if err := it.Value(func(b []byte) error { return decode(key, b, &p) }); err != nil {
			return false, err
		}
		return fn(p)
	})
}

// Waiting says whether u is put aside.
func (tx *Tx) Waiting(u URL) (bool, error) {
	return tx.has(digestKey(spacePending, u.Host(), u.Digest()))
}

// Undefer forgets a waiting URL.
func (tx *Tx) Undefer(u URL) error {
	return tx.del(digestKey(spacePending, u.Host(), u.Digest()))
}

// DeferredHost says how much waits for one host.
type DeferredHost struct {
	Host   string
	Count  int
	Oldest time.Time
}

// DeferredHosts sums up all that waits, a host a row. It reads every waiting
// URL: it is for the start.
func (tx *Tx) DeferredHosts() ([]DeferredHost, error) {
	var all []DeferredHost
	err := tx.each([]byte{spacePending}, nil, true, func(key []byte, it *badger.Item) (bool, error) {
		host, _, err := splitHost(key)
		if err != nil {
			return false, err
		}
		var p Pending
		if err := it.Value(func(b []byte) error { return decode(key, b, &p) }); err != nil {
			return false, err
		}
		if n := len(all); n == 0 || all[n-1].Host != host {
			all = append(all, DeferredHost{Host: host, Oldest: p.Found})
		}
		last := &all[len(all)-1]
		last.Count++
		if p.Found.Before(last.Oldest) {
			last.Oldest = p.Found
		}
		return true, nil
	})
	return all, err
}
