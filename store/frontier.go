package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"peerd/store/kv"
)

// A hostSlot is a host's record in a transaction.
type hostSlot struct {
	rec *Host
	old *Host // as it is stored; nil: not looked up
	// asIs says that rec is another peer's, and Since not to be set.
	asIs bool
}

// Host returns the record of one of our hosts, or ErrNotFound. In an Update,
// changes to what it points to are written when the transaction commits.
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

// PutHost writes a host's record. It belongs into an Update.
func (tx *Tx) PutHost(h Host) {
	if s, ok := tx.hosts[h.Name]; ok {
		s.rec, s.asIs = &h, false
		return
	}
	tx.hosts[h.Name] = &hostSlot{rec: &h}
}

// flushHosts writes the records that this transaction has changed, and their
// places in the index by subnet.
func (tx *Tx) flushHosts() error {
	for _, name := range slices.Sorted(maps.Keys(tx.hosts)) { // a simulation is to replay
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
		switch err := tx.get(spaceKey(spaceHost, name), s.old); err {
		case nil:
		case ErrNotFound:
			s.old = nil
		default:
			return err
		}
	}
	switch {
	case s.asIs || tx.d.tail.indexed == indexNone:
	case s.old == nil || s.old.Subnet != s.rec.Subnet:
		tx.seq++
		s.rec.Since = tx.seq
	default:
		s.rec.Since = s.old.Since
	}
	if tx.log != nil {
		if err := tx.logHost(s.old, s.rec); err != nil {
			return err
		}
	}
	if s.old != nil && s.old.Subnet != s.rec.Subnet {
		if err := tx.del(homeKey(s.old.Subnet, name)); err != nil {
			return err
		}
	}
	if s.old == nil || s.old.Subnet != s.rec.Subnet {
		if err := tx.set(homeKey(s.rec.Subnet, name), nil); err != nil {
			return err
		}
	}
	if err := tx.put(spaceKey(spaceHost, name), s.rec); err != nil {
		return err
	}
	old := *s.rec
	s.old = &old
	return nil
}

// Hosts calls fn for every host that has a record, by name.
func (tx *Tx) Hosts(fn func(Host) error) error {
	if tx.update {
		if err := tx.flushHosts(); err != nil {
			return err
		}
	}
	return tx.each([]byte{spaceHost}, nil, true, func(key []byte, it kv.Item) (bool, error) {
		var h Host
		if err := it.Value(func(b []byte) error { return decode(key, b, &h) }); err != nil {
			return false, err
		}
		return true, fn(h)
	})
}

// Push queues e at its host, behind all of the same depth, unless its URL was
// seen there before; it says whether it was new. The host must have a record
// (else ErrNotFound). limit bounds the URLs that
// one host may ever have (0 = none): what is beyond is counted as dropped.
func (tx *Tx) Push(host string, e Entry, limit int64) (bool, error) {
	h, err := tx.Host(host)
	if err != nil {
		return false, fmt.Errorf("push to %s: %w", host, err)
	}
	sight := tx.d.seen.name(e.URL)
	if !tx.forgot && tx.d.seen.has(sight) {
		return false, nil
	}
	seen := digestKey(spaceSeen, host, e.URL.Digest())
	if ok, err := tx.has(seen); err != nil || ok {
		if ok {
			tx.sighted = append(tx.sighted, sight)
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
	tx.sighted = append(tx.sighted, sight)
	h.Known++
	h.Pending++
	tx.Count(Counters{Seen: 1})
	if err := tx.logCross(h, e); err != nil {
		return false, err
	}
	return true, tx.putEntry(host, tx.nextKey(host, e.Depth), e, markSeen)
}

// putEntry queues e under key. marks say what else is set for it by write.
func (tx *Tx) putEntry(host string, key []byte, e Entry, marks byte) error {
	val, err := encMode.Marshal(e)
	if err != nil {
		return fmt.Errorf("store: encode: %w", err)
	}
	if tx.log != nil {
		if err := tx.logEntry(host, key, val, marks); err != nil {
			return err
		}
	}
	return tx.write(key, val)
}

// PushAgain queues a revisit, behind all of the same depth, although its URL
// was seen before; unless one of the same URL waits there already. It says
// whether it was queued. The host must have a record (else ErrNotFound).
func (tx *Tx) PushAgain(host string, e Entry) (bool, error) {
	h, err := tx.Host(host)
	if err != nil {
		return false, fmt.Errorf("push to %s: %w", host, err)
	}
	again := digestKey(spaceAgain, host, e.URL.Digest())
	if ok, err := tx.has(again); err != nil || ok {
		return false, err
	}
	if err := tx.write(again, nil); err != nil {
		return false, err
	}
	e.Kind |= KindRevisit
	h.Pending++
	return true, tx.putEntry(host, tx.nextKey(host, e.Depth), e, markAgain)
}

// MarkSeen puts u into its host's seen-set without queueing it: it will never
// be pushed. It does not count towards the host's limit.
func (tx *Tx) MarkSeen(u URL) error {
	tx.sighted = append(tx.sighted, tx.d.seen.name(u))
	return tx.set(digestKey(spaceSeen, u.Host(), u.Digest()), nil)
}

// nextKey is the last place among a host's entries of one depth.
func (tx *Tx) nextKey(host string, depth int) []byte {
	tx.seq++
	return queueKey(host, depth, tx.seq)
}

// Seen says whether u was ever accepted at its host, or marked as seen.
func (tx *Tx) Seen(u URL) (bool, error) {
	if !tx.forgot && tx.d.KnownSeen(u) {
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

// Queued says whether e, read by Peek or Queue, is still where it was.
func (tx *Tx) Queued(e Entry) (bool, error) { return tx.has(e.Key) }

// QueueOf is Queue for the entries of one depth, as Entry.Place has it, behind
// a place in the queue.
func (tx *Tx) QueueOf(host string, depth int, after uint64, fn func(Entry) (bool, error)) error {
	from := queueKey(host, depth, after)
	return tx.entries(from[:len(from)-8], from, fn)
}

// Queue calls fn for the entries of a host in order, from the one behind the
// key after on. fn returns false to end.
func (tx *Tx) Queue(host string, after []byte, fn func(Entry) (bool, error)) error {
	return tx.entries(hostPrefix(spaceQueue, host), after, fn)
}

func (tx *Tx) entries(prefix, after []byte, fn func(Entry) (bool, error)) error {
	return tx.each(prefix, after, true, func(key []byte, it kv.Item) (bool, error) {
		var e Entry
		if err := it.Value(func(b []byte) error { return decode(key, b, &e) }); err != nil {
			return false, err
		}
		e.Key = key
		return fn(e)
	})
}

// Remove takes e, read by Peek or Queue, out of its host's queue. Removing
// what is gone already changes nothing.
func (tx *Tx) Remove(host string, e Entry) error {
	if ok, err := tx.has(e.Key); err != nil || !ok {
		return err
	}
	h, err := tx.Host(host)
	if err == nil {
		h.Pending--
	} else if !errors.Is(err, ErrNotFound) {
		return err
	}
	if e.Kind.Revisit() {
		if err := tx.del(digestKey(spaceAgain, host, e.URL.Digest())); err != nil {
			return err
		}
	}
	return tx.del(e.Key)
}

// Requeue moves e, read by Peek or Queue, behind its host's other entries of
// the same depth, with one more try counted. Moving what is gone already
// changes nothing.
func (tx *Tx) Requeue(host string, e Entry) error {
	if ok, err := tx.has(e.Key); err != nil || !ok {
		return err
	}
	if err := tx.del(e.Key); err != nil {
		return err
	}
	e.Tries++
	return tx.putEntry(host, tx.nextKey(host, e.Depth), e, 0)
}

// State returns what room crawl keeps of a host, or ErrNotFound.
func (tx *Tx) State(host string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceState, host))
}

// PutState keeps it.
func (tx *Tx) PutState(host string, state []byte) error {
	return tx.set(spaceKey(spaceState, host), state)
}

// Robots returns what was kept of an origin's robots.txt, or ErrNotFound.
func (tx *Tx) Robots(origin string) ([]byte, error) {
	return tx.bytes(spaceKey(spaceRobots, origin))
}

// PutRobots keeps an origin's robots.txt.
func (tx *Tx) PutRobots(origin string, verdict []byte) error {
	return tx.set(spaceKey(spaceRobots, origin), verdict)
}
