package store

import (
	"fmt"
	"net/netip"
	"strings"

	"peerd/store/kv"
)

// PutSubnet writes the state of a subnet.
func (tx *Tx) PutSubnet(s Subnet) error { return tx.put(subnetKey(s.Prefix), s) }

// Subnet returns the state of a subnet, or ErrNotFound.
func (tx *Tx) Subnet(p netip.Prefix) (Subnet, error) {
	var s Subnet
	err := tx.get(subnetKey(p), &s)
	return s, err
}

// DeleteSubnet forgets the state of a subnet; its hosts are DropHost's matter.
func (tx *Tx) DeleteSubnet(p netip.Prefix) error { return tx.del(subnetKey(p)) }

// Subnets calls fn for every subnet that has a state.
func (tx *Tx) Subnets(fn func(Subnet) error) error {
	return tx.each([]byte{spaceSubnet}, nil, true, func(key []byte, it kv.Item) (bool, error) {
		var s Subnet
		if err := it.Value(func(b []byte) error { return decode(key, b, &s) }); err != nil {
			return false, err
		}
		return true, fn(s)
	})
}

// HostsOf returns the hosts whose home is p, by name.
func (tx *Tx) HostsOf(p netip.Prefix) ([]Host, error) {
	if tx.update {
		if err := tx.flushHosts(); err != nil {
			return nil, err
		}
	}
	var hs []Host
	prefix := homePrefix(p)
	err := tx.each(prefix, nil, false, func(key []byte, _ kv.Item) (bool, error) {
		var h Host
		if err := tx.get(spaceKey(spaceHost, string(key[len(prefix):])), &h); err != nil {
			return false, fmt.Errorf("host of %v: %w", p, err)
		}
		hs = append(hs, h)
		return true, nil
	})
	return hs, err
}

// SeenDigests calls fn for the digests of the URLs ever accepted at host, in
// order, from the one behind after on. fn returns false to end.
func (tx *Tx) SeenDigests(host string, after *Digest, fn func(Digest) (bool, error)) error {
	var from []byte
	if after != nil {
		from = digestKey(spaceSeen, host, *after)
	}
	prefix := hostPrefix(spaceSeen, host)
	return tx.each(prefix, from, false, func(key []byte, _ kv.Item) (bool, error) {
		if len(key) != len(prefix)+len(Digest{}) {
			return false, ErrCorrupt
		}
		return fn(Digest(key[len(prefix):]))
	})
}

// Import queues entries and marks digests as seen at a host that was handed
// over. It takes them as they are: an entry is queued although its digest is
// seen, in the place that its Key has, if it has one, else behind all of its
// depth. The host's record is not touched.
func (tx *Tx) Import(host string, entries []Entry, seen []Digest) error {
	for _, e := range entries {
		if err := tx.set(digestKey(spaceSeen, host, e.URL.Digest()), nil); err != nil {
			return err
		}
		if e.Kind.Revisit() {
			if err := tx.set(digestKey(spaceAgain, host, e.URL.Digest()), nil); err != nil {
				return err
			}
		}
		key := tx.importKey(host, e)
		if err := tx.putEntry(host, key, e, 0); err != nil {
			return err
		}
	}
	for _, d := range seen {
		if err := tx.set(digestKey(spaceSeen, host, d), nil); err != nil {
			return err
		}
	}
	return nil
}

// importKey is the key of an entry that comes from elsewhere.
func (tx *Tx) importKey(host string, e Entry) []byte {
	depth, seq := e.Place()
	if seq == 0 || seq > MaxPlace {
		return tx.nextKey(host, e.Depth)
	}
	tx.raisePlace(seq)
	return queueKey(host, depth, seq)
}

// DropHost deletes a host's record, queue, seen-set, visits and state; what was
// fetched from it stays. It works in several transactions, the record last: if
// it is cut short, doing it again completes it.
func (d *DB) DropHost(host string) error {
	for _, space := range []byte{spaceQueue, spaceAgain, spaceSeen, spaceVisit, spaceDue} {
		if err := d.dropAll(hostPrefix(space, host)); err != nil {
			return err
		}
	}
	return d.Update(func(tx *Tx) error { return tx.dropRecord(host) })
}

// dropRecord deletes a host's record and state.
func (tx *Tx) dropRecord(host string) error {
	var h Host
	switch err := tx.get(spaceKey(spaceHost, host), &h); err {
	case nil:
		if err := tx.del(homeKey(h.Subnet, host)); err != nil {
			return err
		}
	case ErrNotFound:
	default:
		return err
	}
	if err := tx.del(spaceKey(spaceState, host)); err != nil {
		return err
	}
	if err := tx.del(spaceKey(spaceHost, host)); err != nil {
		return err
	}
	delete(tx.hosts, host)
	return nil
}

// dropAtOnce is how many keys, of at most 300 bytes, are deleted in one
// transaction.
const dropAtOnce = 2048

// dropAll deletes all keys with a prefix. Each transaction goes on where the one
// before has ended: what is deleted is still in the way of who looks for more.
func (d *DB) dropAll(prefix []byte) error {
	var last []byte
	for n := dropAtOnce; n == dropAtOnce; {
		err := d.Update(func(tx *Tx) error {
			var keys [][]byte
			err := tx.each(prefix, last, false, func(key []byte, _ kv.Item) (bool, error) {
				keys = append(keys, key)
				return len(keys) < dropAtOnce, nil
			})
			if n = len(keys); err != nil || n == 0 {
				return err
			}
			last = keys[n-1]
			for _, k := range keys {
				if err := tx.del(k); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// RobotsOf calls fn for what is kept of the robots.txt files of a host's
// origins.
func (tx *Tx) RobotsOf(host string, fn func(origin string, verdict []byte) error) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	for _, scheme := range []string{"http://", "https://"} {
		err := tx.each(spaceKey(spaceRobots, scheme+host), nil, false, func(key []byte, it kv.Item) (bool, error) {
			origin := string(key[1:])
			if rest := origin[len(scheme+host):]; rest != "" && rest[0] != ':' {
				return true, nil // another host whose name begins alike
			}
			val, err := it.ValueCopy(nil)
			if err != nil {
				return false, err
			}
			return true, fn(origin, val)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
