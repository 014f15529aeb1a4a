package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// hostSlot is the record of a host in a transaction.
type hostSlot struct {
	rec *Host
	old *Host // stored record; nil: not read
	// verbatim means that rec comes from another peer and keeps its SubnetSeq.
	verbatim bool
	// moved means that the change log of the old subnet keeps the host; see MoveHost.
	moved bool
}

// Host returns the record of a host of this peer, or ErrNotFound. In an Update, changes
// to the returned record are written when the transaction commits.
func (tx *Tx) Host(name string) (*Host, error) {
	if s, ok := tx.hosts[name]; ok {
		return s.rec, nil
	}
	h := &Host{}
	if err := tx.get(spaceKey(spaceHost, name), h); err != nil {
		return nil, err
	}
	old := *h
	tx.hosts[name] = &hostSlot{rec: h, old: &old}
	return h, nil
}

// PutHost writes the record of a host. It is for an Update.
func (tx *Tx) PutHost(h Host) {
	if s, ok := tx.hosts[h.Name]; ok {
		s.rec, s.verbatim, s.moved = &h, false, false
		return
	}
	tx.hosts[h.Name] = &hostSlot{rec: &h}
}

// flushHosts writes the records that the transaction has changed and updates the index
// of hosts by subnet.
func (tx *Tx) flushHosts() error {
	for _, name := range slices.Sorted(maps.Keys(tx.hosts)) { // simulations need one order
		s := tx.hosts[name]
		if s.old != nil && *s.old == *s.rec {
			continue
		}
		if err := tx.flushHost(name, s); err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) flushHost(name string, s *hostSlot) error {
	if s.old == nil {
		s.old = &Host{}
		err := tx.get(spaceKey(spaceHost, name), s.old)
		if errors.Is(err, ErrNotFound) {
			s.old = nil
		} else if err != nil {
			return err
		}
	}
	switch {
	case s.verbatim:
	case s.old == nil || s.old.Subnet != s.rec.Subnet:
		tx.seq++
		s.rec.SubnetSeq = tx.seq
	default:
		s.rec.SubnetSeq = s.old.SubnetSeq
	}
	if tx.log != nil {
		if err := tx.logHost(s); err != nil {
			return err
		}
	}
	if s.old != nil && s.old.Subnet != s.rec.Subnet {
		if err := tx.del(subnetHostKey(s.old.Subnet, name)); err != nil {
			return err
		}
	}
	if s.old == nil || s.old.Subnet != s.rec.Subnet {
		if err := tx.set(subnetHostKey(s.rec.Subnet, name), nil); err != nil {
			return err
		}
	}
	if err := tx.put(spaceKey(spaceHost, name), s.rec); err != nil {
		return err
	}
	old := *s.rec
	s.old, s.moved = &old, false
	return nil
}

// Hosts calls fn for every host that has a record, by name.
func (tx *Tx) Hosts(fn func(Host) error) error {
	if tx.update {
		if err := tx.flushHosts(); err != nil {
			return err
		}
	}
	return eachValue(tx, []byte{spaceHost}, nil, func(key []byte, h Host) (bool, error) {
		return true, fn(h)
	})
}

// Push queues e at its host, behind all entries of its finder and depth, unless its URL was
// seen before. It reports whether the URL is new. The host must have a record, else the
// error is ErrNotFound. limit is the maximum number of URLs that the host may ever have,
// 0 for no limit; a URL beyond it is counted as dropped.
func (tx *Tx) Push(host string, e Entry, limit int64) (bool, error) {
	h, err := tx.Host(host)
	if err != nil {
		return false, fmt.Errorf("push to %s: %w", host, err)
	}
	hash := tx.d.seen.hash(e.URL)
	if !tx.seenDeleted && tx.d.seen.has(hash) {
		return false, nil
	}
	seen := digestKey(spaceSeen, host, e.URL.Digest())
	if ok, err := tx.has(seen); err != nil || ok {
		if ok {
			tx.seenURLs = append(tx.seenURLs, hash)
		}
		return false, err
	}
	if limit > 0 && h.Known >= limit {
		tx.Count(Counters{Dropped: 1})
		return false, nil
	}
	if err := tx.write(seen, nil); err != nil {
		return false, err
	}
	if err := tx.retryGivenUp(e.URL); err != nil { // given up while it was pending
		return false, err
	}
	tx.seenURLs = append(tx.seenURLs, hash)
	h.Known++
	h.Queued++
	tx.Count(Counters{Seen: 1})
	if err := tx.logCrossLink(h, e); err != nil {
		return false, err
	}
	return true, tx.putEntry(host, tx.nextQueueKey(host, e.Place()), e, flagSeen)
}

// putEntry queues e under key. flags are the flags of its OpEntry in the change log.
func (tx *Tx) putEntry(host string, key []byte, e Entry, flags byte) error {
	val, err := encMode.Marshal(e)
	if err != nil {
		return fmt.Errorf("store: encode: %w", err)
	}
	if tx.log != nil {
		if err := tx.logEntry(host, key, val, flags); err != nil {
			return err
		}
	}
	return tx.write(key, val)
}

// PushRevisit queues a revisit of a URL, behind all entries of the same depth, unless a
// revisit of it is queued already. It reports whether the revisit was queued. The host
// must have a record, else the error is ErrNotFound.
func (tx *Tx) PushRevisit(host string, e Entry) (bool, error) {
	h, err := tx.Host(host)
	if err != nil {
		return false, fmt.Errorf("push to %s: %w", host, err)
	}
	queued := digestKey(spaceRevisit, host, e.URL.Digest())
	if ok, err := tx.has(queued); err != nil || ok {
		return false, err
	}
	if err := tx.write(queued, nil); err != nil {
		return false, err
	}
	e.Kind |= KindRevisit
	h.Queued++
	return true, tx.putEntry(host, tx.nextQueueKey(host, e.Place()), e, flagRevisit)
}

// MarkSeen adds u to the seen set of its host without queueing it, so Push will never
// queue it. It does not count towards the host's limit.
func (tx *Tx) MarkSeen(u URL) error {
	tx.seenURLs = append(tx.seenURLs, tx.d.seen.hash(u))
	return tx.set(digestKey(spaceSeen, u.Host(), u.Digest()), nil)
}

// nextQueueKey returns the key of a new last entry at one place.
func (tx *Tx) nextQueueKey(host string, place int) []byte {
	tx.seq++
	return queueKey(host, place, tx.seq)
}

// Seen reports whether u was ever accepted at its host, or marked as seen.
func (tx *Tx) Seen(u URL) (bool, error) {
	if !tx.seenDeleted && tx.d.KnownSeen(u) {
		return true, nil
	}
	return tx.has(digestKey(spaceSeen, u.Host(), u.Digest()))
}

// Peek returns the first entry of a host's queue without removing it, or
// ErrNotFound.
func (tx *Tx) Peek(host string) (Entry, error) {
	var e Entry
	err := tx.Queue(host, nil, func(x Entry) (bool, error) { e = x; return false, nil })
	if err == nil && e.Key == nil {
		err = ErrNotFound
	}
	return e, err
}

// Queued reports whether e, read by Peek or Queue, is still in its position.
func (tx *Tx) Queued(e Entry) (bool, error) { return tx.has(e.Key) }

// QueueAt calls fn for the entries of a host at one place, as Entry.Position returns it,
// behind the sequence number after. fn returns false to stop.
func (tx *Tx) QueueAt(
	host string, place int, after uint64, fn func(Entry) (bool, error),
) error {
	from := queueKey(host, place, after)
	return tx.entries(from[:len(from)-8], from, fn)
}

// Queue calls fn for the entries of a host in order, starting behind the key after if it
// is not nil. fn returns false to stop.
func (tx *Tx) Queue(host string, after []byte, fn func(Entry) (bool, error)) error {
	return tx.entries(hostPrefix(spaceQueue, host), after, fn)
}

// QueueFrom is Queue from a place on.
func (tx *Tx) QueueFrom(host string, place int, fn func(Entry) (bool, error)) error {
	return tx.Queue(host, queueKey(host, place, 0), fn)
}

func (tx *Tx) entries(prefix, after []byte, fn func(Entry) (bool, error)) error {
	return eachValue(tx, prefix, after, func(key []byte, e Entry) (bool, error) {
		e.Key = key
		return fn(e)
	})
}

// Remove removes e, read by Peek or Queue, from the queue of its host. If e is no longer
// there, Remove does nothing.
func (tx *Tx) Remove(host string, e Entry) error {
	if ok, err := tx.has(e.Key); err != nil || !ok {
		return err
	}
	h, err := tx.Host(host)
	if err == nil {
		h.Queued--
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if e.Kind.Revisit() {
		if err := tx.del(digestKey(spaceRevisit, host, e.URL.Digest())); err != nil {
			return err
		}
	}
	return tx.del(e.Key)
}

// Defer moves e, read by Peek or Queue, behind all other entries of its host. If e is no
// longer there, Defer does nothing.
func (tx *Tx) Defer(host string, e Entry) error { return tx.move(host, e, DeferredPlace) }

// Requeue moves e, read by Peek or Queue, behind all other entries that this peer has found, to be
// tried again. Unlike a deferred entry it does not wait for what others find, of which there may
// be no end. If e is no longer there, Requeue does nothing.
func (tx *Tx) Requeue(host string, e Entry) error { return tx.move(host, e, RetryPlace) }

// move moves e behind the other entries of a place.
func (tx *Tx) move(host string, e Entry, place int) error {
	if ok, err := tx.has(e.Key); err != nil || !ok {
		return err
	}
	if err := tx.del(e.Key); err != nil {
		return err
	}
	return tx.putEntry(host, tx.nextQueueKey(host, place), e, 0)
}

// State returns the state of a host as package crawl encoded it, or ErrNotFound.
func (tx *Tx) State(host string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceState, host))
}

// PutState stores the state of a host.
func (tx *Tx) PutState(host string, state []byte) error {
	return tx.set(spaceKey(spaceState, host), state)
}

// Robots returns the stored robots.txt of an origin, or ErrNotFound.
func (tx *Tx) Robots(origin string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceRobots, origin))
}

// PutRobots stores the robots.txt of an origin, as package crawl encodes it.
func (tx *Tx) PutRobots(origin string, verdict []byte) error {
	return tx.set(spaceKey(spaceRobots, origin), verdict)
}
