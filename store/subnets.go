package store

import (
	"fmt"
	"math"
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

// DeleteSubnet deletes the state of a subnet. It does not delete its hosts; see DropHost.
func (tx *Tx) DeleteSubnet(p netip.Prefix) error { return tx.del(subnetKey(p)) }

// Subnets calls fn for every subnet that has a state.
func (tx *Tx) Subnets(fn func(Subnet) error) error {
	return eachValue(tx, []byte{spaceSubnet}, nil, func(key []byte, s Subnet) (bool, error) {
		return true, fn(s)
	})
}

// HostsOf returns the hosts with home subnet p, by name.
func (tx *Tx) HostsOf(p netip.Prefix) (hs []Host, err error) {
	names, err := tx.hostsBetween(p, "", "", math.MaxInt)
	for _, name := range names {
		var h Host
		if err := tx.get(spaceKey(spaceHost, name), &h); err != nil {
			return nil, fmt.Errorf("host of %v: %w", p, err)
		}
		hs = append(hs, h)
	}
	return hs, err
}

// HostsOf is Tx.HostsOf in a transaction of its own.
func (d *DB) HostsOf(p netip.Prefix) (hosts []Host, err error) {
	err = d.View(func(tx *Tx) (err error) {
		hosts, err = tx.HostsOf(p)
		return err
	})
	return hosts, err
}

// SeenDigests calls fn for the digests of the URLs ever accepted at host, in order, from behind
// after if it is not nil. fn returns false to stop.
func (tx *Tx) SeenDigests(host string, after *Digest, fn func(Digest) (bool, error)) error {
	prefix := hostPrefix(spaceSeen, host)
	return tx.each(prefix, behind(prefix, after), false, func(key []byte, _ kv.Item) (bool, error) {
		if len(key) != len(prefix)+len(Digest{}) {
			return false, ErrCorrupt
		}
		return fn(Digest(key[len(prefix):]))
	})
}

// Import queues entries and marks digests as seen at a host that was handed over. It
// does not check whether an entry was seen before. An entry with a Key keeps its
// position; others are queued behind all entries of their depth. The record of the host
// is not changed.
func (tx *Tx) Import(host string, entries []Entry, seen []Digest) error {
	for _, e := range entries {
		if err := tx.set(digestKey(spaceSeen, host, e.URL.Digest()), nil); err != nil {
			return err
		}
		if e.Kind.Revisit() {
			if err := tx.set(digestKey(spaceRevisit, host, e.URL.Digest()), nil); err != nil {
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

// importKey returns the key of an entry received from another peer.
func (tx *Tx) importKey(host string, e Entry) []byte {
	place, seq := e.Position()
	if seq == 0 || seq > MaxSeq {
		return tx.nextQueueKey(host, e.Place())
	}
	tx.raiseSeq(seq)
	return queueKey(host, place, seq)
}

// DropHost deletes the record, queue, seen set, visits, given-up URLs, robots.txt files and state
// of a host, but not the pages fetched from it. It uses several transactions and deletes the record
// last. If it is interrupted, calling it again completes it.
func (d *DB) DropHost(host string) error {
	return d.dropHost(host, always)
}

// DropHostIn is DropHost for a host with home subnet p. It deletes nothing more once the host
// has another one.
func (d *DB) DropHostIn(p netip.Prefix, host string) error {
	return d.dropHost(host, func(tx *Tx) (bool, error) { return tx.hasHostIn(p, host) })
}

// dropHost is DropHost in transactions of which each begins with may, and deletes nothing if
// that returns false.
func (d *DB) dropHost(host string, may func(*Tx) (bool, error)) error {
	for _, s := range snapshotSpaces {
		if err := d.deleteAll(hostPrefix(s.space, host), may); err != nil {
			return err
		}
	}
	return d.updateWhile(func(tx *Tx) (more bool, err error) {
		if ok, err := may(tx); err != nil || !ok {
			return false, err
		}
		keys, err := tx.robotsKeys(host, deleteBatchSize)
		if err == nil {
			err = tx.del(keys...)
		}
		if more = len(keys) == deleteBatchSize; err == nil && !more {
			err = tx.dropRecord(host)
		}
		return more, err
	})
}

// dropRecord deletes a host's record and state.
func (tx *Tx) dropRecord(host string) error {
	var h Host
	err := tx.get(spaceKey(spaceHost, host), &h)
	if err == nil {
		err = tx.del(subnetHostKey(h.Subnet, host))
	}
	if IgnoreNotFound(err) != nil {
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

// always lets deleteAll delete everything.
func always(*Tx) (bool, error) { return true, nil }

// deleteBatchSize is the number of keys, of at most 300 bytes each, that one transaction
// deletes.
const deleteBatchSize = 2048

// deleteAll deletes all keys with a prefix, as long as may returns true. Each transaction starts
// behind the last key of the previous one, because iterating over deleted keys takes time.
func (d *DB) deleteAll(prefix []byte, may func(*Tx) (bool, error)) error {
	var last []byte
	return d.updateWhile(func(tx *Tx) (more bool, err error) {
		if ok, err := may(tx); err != nil || !ok {
			return false, err
		}
		var keys [][]byte
		err = tx.each(prefix, last, false, func(key []byte, _ kv.Item) (bool, error) {
			keys = append(keys, key)
			return len(keys) < deleteBatchSize, nil
		})
		if err != nil || len(keys) == 0 {
			return false, err
		}
		last = keys[len(keys)-1]
		return len(keys) == deleteBatchSize, tx.del(keys...)
	})
}

// RobotsOf calls fn for the stored robots.txt of each origin of a host.
func (tx *Tx) RobotsOf(host string, fn func(origin string, verdict []byte) error) error {
	return tx.eachRobots(host, func(key []byte, it kv.Item) (bool, error) {
		val, err := it.ValueCopy(nil)
		if err != nil {
			return false, err
		}
		return true, fn(string(key[1:]), val)
	})
}

// robotsKeys returns up to n keys of the robots.txt files of a host.
func (tx *Tx) robotsKeys(host string, n int) (keys [][]byte, err error) {
	err = tx.eachRobots(host, func(key []byte, _ kv.Item) (bool, error) {
		keys = append(keys, key)
		return len(keys) < n, nil
	})
	return keys, err
}

// eachRobots calls fn for the robots.txt of each origin of a host. fn returns false to stop.
func (tx *Tx) eachRobots(host string, fn func(key []byte, it kv.Item) (bool, error)) error {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	more := true
	for _, scheme := range []string{"http://", "https://"} {
		at := spaceKey(spaceRobots, scheme+host)
		err := tx.each(at, nil, false, func(key []byte, it kv.Item) (_ bool, err error) {
			if len(key) == len(at) {
				more, err = fn(key, it)
			}
			return false, err // the others have a port, or are of other hosts
		})
		if err == nil && more {
			err = tx.each(append(at, ':'), nil, false,
				func(key []byte, it kv.Item) (_ bool, err error) {
					more, err = fn(key, it)
					return more, err
				})
		}
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// MoveHost changes the home subnet of a host and the address to dial. Its queue, seen
// set, visits and state are stored by its name and need no change. The change log of the
// new subnet then contains the host. That of the old one does not contain that it left:
// the replicas of the old subnet keep it until LogMoved. MoveHost is for an Update; it
// fails with ErrNotFound if the host has no record.
func (tx *Tx) MoveHost(name string, to netip.Prefix, addr netip.Addr) error {
	h, err := tx.Host(name)
	if err != nil {
		return err
	}
	h.Addr = addr.Unmap()
	if h.Subnet != to {
		h.Subnet, tx.hosts[name].moved = to, true
	}
	return nil
}

// LogMoved logs in the change log of from that MoveHost took a host out of it. The caller
// knows that the replicas of the new subnet have the host. LogMoved is for an Update; it
// does nothing if from is not logged or the host is there again.
func (tx *Tx) LogMoved(name string, from netip.Prefix) error {
	if tx.log == nil {
		return nil
	}
	h, err := tx.hostChanges([]byte(name))
	if err != nil {
		return err
	}
	h.leftSubnets = append(h.leftSubnets, from)
	tx.log.bytes += (&wireOp{Name: name}).size()
	return nil
}
