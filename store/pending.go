package store

import (
	"time"
)

// AddPending stores a pending URL until its owner has acknowledged it. It reports whether
// the URL is new, that is, was not pending already; one that was gets KindChanged if p has it.
// The record of a URL that was given up while it was pending is deleted.
func (tx *Tx) AddPending(p Pending) (bool, error) {
	if err := tx.setFromSubnet(&p); err != nil {
		return false, err
	}
	return tx.addResolved(p)
}

// addResolved is AddPending for a URL with FromSubnet set.
func (tx *Tx) addResolved(p Pending) (bool, error) {
	key := digestKey(spacePending, p.URL.Host(), p.URL.Digest())
	ok, err := tx.has(key)
	if err != nil {
		return false, err
	}
	if ok && p.Kind.Changed() {
		if err := tx.markChanged(key); err != nil {
			return false, err
		}
	}
	if ok {
		return false, tx.reassignOutlink(key, p)
	}
	if err := tx.forgetGivenUp(p.URL); err != nil {
		return false, err
	}
	return true, tx.putPending(p)
}

// markChanged sets KindChanged in the pending URL at key.
func (tx *Tx) markChanged(key []byte) error {
	var p Pending
	if err := tx.get(key, &p); err != nil || p.Kind.Changed() {
		return err
	}
	p.Kind |= KindChanged
	return tx.putPending(p)
}

// PendingOf calls fn for the pending URLs of host. fn returns false to stop.
func (tx *Tx) PendingOf(host string, fn func(Pending) (bool, error)) error {
	return eachValue(tx, hostPrefix(spacePending, host), nil,
		func(_ []byte, p Pending) (bool, error) { return fn(p) })
}

// Pending returns the pending URL u, or ErrNotFound.
func (tx *Tx) Pending(u URL) (p Pending, err error) {
	return p, tx.get(digestKey(spacePending, u.Host(), u.Digest()), &p)
}

// HasPending reports whether u is pending.
func (tx *Tx) HasPending(u URL) (bool, error) {
	return tx.has(digestKey(spacePending, u.Host(), u.Digest()))
}

// RemovePending deletes a pending URL.
func (tx *Tx) RemovePending(u URL) error {
	d := u.Digest()
	key := digestKey(spacePending, u.Host(), d)
	if err := tx.unindexPending(key, d); err != nil {
		return err
	}
	return tx.del(key)
}

// PendingHost summarizes the pending URLs of one host.
type PendingHost struct {
	Host     string
	Count    int
	Received int // of Count, those that other peers sent
	Oldest   time.Time
}

// PendingHosts summarizes all pending URLs by host. It reads every pending URL, so it is
// meant to be called once, at startup.
func (tx *Tx) PendingHosts() ([]PendingHost, error) {
	var all []PendingHost
	err := eachValue(tx, []byte{spacePending}, nil, func(_ []byte, p Pending) (bool, error) {
		host := p.URL.Host()
		if n := len(all); n == 0 || all[n-1].Host != host {
			all = append(all, PendingHost{Host: host, Oldest: p.Found})
		}
		last := &all[len(all)-1]
		last.Count++
		if p.Finder != 0 {
			last.Received++
		}
		if p.Found.Before(last.Oldest) {
			last.Oldest = p.Found
		}
		return true, nil
	})
	return all, err
}
