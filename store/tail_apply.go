package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"peerd/store/kv"
)

var (
	// ErrElsewhere is returned by Apply for the record of a host of which this
	// store is a replica already, as another owner's: one of the two is wrong.
	ErrElsewhere = errors.New("store: the host is in another subnet")
	// ErrStale is returned by Apply when more has to be deleted than one
	// transaction takes: DB.Absorb does it.
	ErrStale = errors.New("store: too much to delete in one transaction")
)

// staleAtOnce is how many keys an Apply deletes besides those that are named.
const staleAtOnce = 1024

// Apply does ops, decoded by DecodeOps, to the hosts and out-links of p, at a
// replica. Ops of hosts that are not in p here are passed over: their owner's
// log says later, or has said, that they left, or this peer owns them itself.
// Applying the same ops again in
// order changes nothing in the end. Entries keep their places, and this store's
// own come behind them. Errors wrap ErrBadOps, ErrElsewhere or ErrStale; then
// the transaction must not be committed.
func (tx *Tx) Apply(p netip.Prefix, ops []Op) error {
	a := applier{tx: tx, p: p, ops: ops, room: staleAtOnce}
	for i := range ops {
		if err := a.apply(&ops[i]); err != nil {
			return err
		}
	}
	return nil
}

type applier struct {
	tx   *Tx
	p    netip.Prefix
	ops  []Op
	keep map[string]bool // what the ops set, once one has cleared
	room int
}

// has says whether the host is in the subnet here.
func (a *applier) has(host string) (bool, error) {
	h, err := a.tx.Host(host)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return err == nil && h.Subnet == a.p, err
}

func (a *applier) apply(o *Op) error {
	switch o.Kind {
	case OpHost:
		return a.host(o)
	case OpOutlink:
		return a.tx.put(outlinkKey(spaceOutlink, a.p, o.Pending.URL.Digest()), o.Pending)
	case OpNoOutlink:
		return a.tx.del(outlinkKey(spaceOutlink, a.p, o.Digest))
	case OpClearHosts:
		return a.clearHosts(o)
	case OpClearLinks:
		return a.clear(outlinkPrefix(spaceOutlink, a.p), o)
	}
	if ok, err := a.has(o.Name); err != nil || !ok {
		return err
	}
	if o.Kind == OpClear {
		return a.clear(hostPrefix(o.Space, o.Name), o)
	}
	return a.change(o)
}

// change does what changes a host that is here.
func (a *applier) change(o *Op) error {
	tx := a.tx
	switch o.Kind {
	case OpHostGone:
		return a.dropHost(o.Name)
	case OpEntry:
		return a.entry(o)
	case OpUnqueue:
		return tx.del(queueKey(o.Name, o.Depth, o.Seq))
	case OpSeen:
		return tx.set(digestKey(spaceSeen, o.Name, o.Digest), nil)
	case OpUnseen:
		return tx.del(digestKey(spaceSeen, o.Name, o.Digest))
	case OpAgain:
		return tx.set(digestKey(spaceAgain, o.Name, o.Digest), nil)
	case OpUnagain:
		return tx.del(digestKey(spaceAgain, o.Name, o.Digest))
	case OpVisit:
		return tx.put(digestKey(spaceVisit, o.Name, o.Visit.URL.Digest()), o.Visit)
	case OpUnvisit:
		return tx.del(digestKey(spaceVisit, o.Name, o.Digest))
	case OpDue:
		return tx.set(dueMillisKey(o.Name, o.Due, o.Digest), nil)
	case OpUndue:
		return tx.del(dueMillisKey(o.Name, o.Due, o.Digest))
	case OpState:
		return tx.PutState(o.Name, o.Raw)
	case OpUnstate:
		return tx.del(spaceKey(spaceState, o.Name))
	case OpRobots:
		return tx.PutRobots(o.Origin, o.Raw)
	}
	return fmt.Errorf("%w: kind %d", ErrBadOps, o.Kind)
}

// host writes a host's record, unless the host is elsewhere here and stays.
func (a *applier) host(o *Op) error {
	if o.Rec.Subnet != a.p {
		return fmt.Errorf("%w: host %.100q of %v", ErrBadOps, o.Name, o.Rec.Subnet)
	}
	switch old, err := a.tx.Host(o.Name); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case old.Subnet != a.p:
		if ok, err := a.mayTake(old, o.Rec); err != nil || !ok {
			return err
		}
	}
	a.tx.PutHost(*o.Rec)
	a.tx.hosts[o.Name].asIs = true
	a.tx.raisePlace(o.Rec.Since)
	return nil
}

// mayTake says whether a host comes from another subnet: from one of which
// nothing is known; from a replica of the same owner's, whose two logs may be
// read in any order, if that has the earlier record; never from one of this
// peer's own.
func (a *applier) mayTake(old, rec *Host) (bool, error) {
	there, err := a.tx.Subnet(old.Subnet)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil || there.Phase != PhaseShadow {
		return false, err
	}
	here, err := a.tx.Subnet(a.p)
	if err = ignoreNotFound(err); err != nil {
		return false, err
	}
	if here.From == "" || here.From != there.From {
		return false, fmt.Errorf("%w: %q in %v, not in %v", ErrElsewhere, rec.Name, old.Subnet, a.p)
	}
	return old.Since < rec.Since, nil
}

func ignoreNotFound(err error) error {
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// entry queues an entry in its place.
func (a *applier) entry(o *Op) error {
	d := o.Entry.URL.Digest()
	if o.Seen {
		if err := a.tx.set(digestKey(spaceSeen, o.Name, d), nil); err != nil {
			return err
		}
	}
	if o.Again {
		if err := a.tx.set(digestKey(spaceAgain, o.Name, d), nil); err != nil {
			return err
		}
	}
	a.tx.raisePlace(o.Seq)
	return a.tx.putEntry(o.Name, queueKey(o.Name, o.Depth, o.Seq), *o.Entry, 0)
}

// raisePlace has this store's next places lie behind seq.
func (tx *Tx) raisePlace(seq uint64) { tx.seq = max(tx.seq, min(seq, maxOwnPlace)) }

// dropHost deletes all of a host that is here.
func (a *applier) dropHost(host string) error {
	for _, s := range walkSpaces {
		if err := a.deleteIn(hostPrefix(s.space, host), "", "", nil); err != nil {
			return err
		}
	}
	return a.tx.dropRecord(host)
}

// clear deletes what the ops do not set between the bounds.
func (a *applier) clear(prefix []byte, o *Op) error {
	return a.deleteIn(prefix, o.Lo, o.Hi, a.kept())
}

// deleteIn deletes the keys with a prefix that are behind lo and not behind hi.
func (a *applier) deleteIn(prefix []byte, lo, hi string, keep map[string]bool) error {
	keys, err := a.tx.staleKeys(prefix, lo, hi, keep, a.room+1)
	if err != nil {
		return err
	}
	if len(keys) > a.room {
		return ErrStale
	}
	a.room -= len(keys)
	for _, k := range keys {
		if err := a.tx.del(k); err != nil {
			return err
		}
	}
	return nil
}

// staleKeys returns up to n keys with a prefix, behind lo and not behind hi,
// that are not to be kept.
func (tx *Tx) staleKeys(prefix []byte, lo, hi string, keep map[string]bool, n int) (keys [][]byte, err error) {
	var after []byte
	if lo != "" {
		after = append(append(after, prefix...), lo...)
	}
	err = tx.each(prefix, after, false, func(key []byte, _ kv.Item) (bool, error) {
		if hi != "" && string(key[len(prefix):]) > hi {
			return false, nil
		}
		if !keep[string(key)] {
			keys = append(keys, key)
		}
		return len(keys) < n, nil
	})
	return keys, err
}

// clearHosts deletes hosts that the owner does not have.
func (a *applier) clearHosts(o *Op) error {
	names, err := a.tx.hostsBetween(a.p, o.Lo, o.Hi, a.room+1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if a.room--; a.room < 0 {
			return ErrStale
		}
		if err := a.dropHost(name); err != nil {
			return err
		}
	}
	return nil
}

// hostsBetween returns up to n hosts of p with names between lo and hi.
func (tx *Tx) hostsBetween(p netip.Prefix, lo, hi string, n int) (names []string, err error) {
	if tx.update {
		if err := tx.flushHosts(); err != nil {
			return nil, err
		}
	}
	prefix := homePrefix(p)
	var after []byte
	if lo != "" {
		after = homeKey(p, lo)
	}
	err = tx.each(prefix, after, false, func(key []byte, _ kv.Item) (bool, error) {
		name := string(key[len(prefix):])
		if hi != "" && name >= hi {
			return false, nil
		}
		names = append(names, name)
		return len(names) < n, nil
	})
	return names, err
}

// kept returns the keys that the ops set.
func (a *applier) kept() map[string]bool {
	if a.keep == nil {
		a.keep = keptBy(a.p, a.ops)
	}
	return a.keep
}

func keptBy(p netip.Prefix, ops []Op) map[string]bool {
	keep := map[string]bool{}
	for i := range ops {
		switch o := &ops[i]; o.Kind {
		case OpEntry:
			keep[string(queueKey(o.Name, o.Depth, o.Seq))] = true
		case OpSeen:
			keep[string(digestKey(spaceSeen, o.Name, o.Digest))] = true
		case OpAgain:
			keep[string(digestKey(spaceAgain, o.Name, o.Digest))] = true
		case OpVisit:
			keep[string(digestKey(spaceVisit, o.Name, o.Visit.URL.Digest()))] = true
		case OpDue:
			keep[string(dueMillisKey(o.Name, o.Due, o.Digest))] = true
		case OpOutlink:
			keep[string(outlinkKey(spaceOutlink, p, o.Pending.URL.Digest()))] = true
		}
	}
	return keep
}

// dueMillisKey is dueKey for a time as the order has it.
func dueMillisKey(host string, ms int64, d Digest) []byte {
	k := binary.BigEndian.AppendUint64(hostPrefix(spaceDue, host), uint64(ms))
	return append(k, d[:]...)
}
