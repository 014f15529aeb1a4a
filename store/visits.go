package store

import (
	"encoding/binary"
	"errors"
	"time"

	"peerd/store/kv"
)

// maxDue is the end of the year 9999 in Unix milliseconds. Times up to it are stored with
// an error far below a millisecond.
const maxDue = 253402300799999

// dueMillis returns the due time of a visit as the due order stores it, in Unix
// milliseconds. It rounds: a time read from disk may be slightly less than the one that
// was written.
func dueMillis(due time.Time) int64 {
	return min(max(due.Add(time.Millisecond/2).UnixMilli(), 0), maxDue)
}

// PutVisit stores v and replaces the earlier visit of its URL. The host must have a
// record, else the error is ErrNotFound. If v is due before the host's DueAt, DueAt is
// set to it. Due is stored in milliseconds.
func (tx *Tx) PutVisit(v Visit) error {
	v.Due = time.UnixMilli(dueMillis(v.Due))
	name, digest := v.URL.Host(), v.URL.Digest()
	h, err := tx.Host(name)
	if err != nil {
		return err
	}
	old, err := tx.Visit(v.URL)
	switch {
	case err == nil:
		if err := tx.del(dueKey(name, old.Due, digest)); err != nil {
			return err
		}
	case !errors.Is(err, ErrNotFound):
		return err
	}
	if h.DueAt.IsZero() || v.Due.Before(h.DueAt) {
		h.DueAt = v.Due
	}
	if err := tx.set(dueKey(name, v.Due, digest), nil); err != nil {
		return err
	}
	return tx.put(digestKey(spaceVisit, name, digest), v)
}

// Visit returns the planned visit of u, or ErrNotFound.
func (tx *Tx) Visit(u URL) (Visit, error) {
	var v Visit
	err := tx.get(digestKey(spaceVisit, u.Host(), u.Digest()), &v)
	return v, err
}

// DeleteVisit deletes the planned visit of u, if there is one.
func (tx *Tx) DeleteVisit(u URL) error {
	v, err := tx.Visit(u)
	if err != nil {
		return IgnoreNotFound(err)
	}
	name, digest := u.Host(), u.Digest()
	if err := tx.del(dueKey(name, v.Due, digest)); err != nil {
		return err
	}
	return tx.del(digestKey(spaceVisit, name, digest))
}

// Visits calls fn for the planned visits of a host, in order of the digests of their URLs, from
// behind after if it is not nil. fn returns false to stop.
func (tx *Tx) Visits(host string, after *Digest, fn func(Visit) (bool, error)) error {
	prefix := hostPrefix(spaceVisit, host)
	return eachValue(tx, prefix, behind(prefix, after),
		func(_ []byte, v Visit) (bool, error) { return fn(v) })
}

// TakeDue removes up to n visits of a host that are due at now from the due order and
// returns them, the longest due first. The caller queues them; PutVisit adds them to the
// due order again after the fetch. TakeDue sets the host's DueAt to the next due time.
func (tx *Tx) TakeDue(host string, now time.Time, n int) ([]Visit, error) {
	h, err := tx.Host(host)
	if err != nil {
		return nil, err
	}
	prefix := hostPrefix(spaceDue, host)
	var keys [][]byte
	h.DueAt = time.Time{}
	err = tx.each(prefix, nil, false, func(key []byte, _ kv.Item) (bool, error) {
		if len(key) != len(prefix)+8+len(Digest{}) {
			return false, ErrCorrupt
		}
		due := time.UnixMilli(int64(binary.BigEndian.Uint64(key[len(prefix):])))
		if due.After(now) || len(keys) == n {
			h.DueAt = due
			return false, nil
		}
		keys = append(keys, key)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	var due []Visit
	for _, k := range keys {
		var v Visit
		err := tx.get(digestKey(spaceVisit, host, Digest(k[len(prefix)+8:])), &v)
		switch {
		case err == nil:
			due = append(due, v)
		case !errors.Is(err, ErrNotFound): // not found: deleted meanwhile
			return nil, err
		}
		if err := tx.del(k); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// dueKey returns the key of a visit in the due order of its host.
func dueKey(host string, due time.Time, d Digest) []byte {
	return dueMillisKey(host, dueMillis(due), d)
}
