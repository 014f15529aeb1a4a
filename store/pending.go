package store

import (
	"time"

	"peerd/store/kv"
)

// Defer keeps a URL whose host is not (known to be) ours until its owner has
// acknowledged it. It says whether the URL was not waiting already.
func (tx *Tx) Defer(p Pending) (bool, error) {
	if err := tx.settle(&p); err != nil {
		return false, err
	}
	return tx.deferTo(p)
}

// deferTo is Defer when p.Home is set.
func (tx *Tx) deferTo(p Pending) (bool, error) {
	key := digestKey(spacePending, p.URL.Host(), p.URL.Digest())
	ok, err := tx.has(key)
	if err != nil {
		return false, err
	}
	if ok {
		return false, tx.deferAgain(key, p)
	}
	return true, tx.putOutlink(p)
}

// Deferred calls fn for the URLs that wait for host. fn returns false to end.
func (tx *Tx) Deferred(host string, fn func(Pending) (bool, error)) error {
	return tx.each(hostPrefix(spacePending, host), nil, true, func(key []byte, it kv.Item) (bool, error) {
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
	d := u.Digest()
	key := digestKey(spacePending, u.Host(), d)
	if err := tx.forgetOutlink(key, d); err != nil {
		return err
	}
	return tx.del(key)
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
	err := tx.each([]byte{spacePending}, nil, true, func(key []byte, it kv.Item) (bool, error) {
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
