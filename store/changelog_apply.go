package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"peerd/store/kv"
)

var (
	// ErrHostConflict is returned by Apply for the record of a host of which this peer
	// already holds a copy from another owner: one of the two owners is wrong.
	ErrHostConflict = errors.New("store: the host is in another subnet")
	// ErrTooManyDeletes is returned by Tx.Apply if it has to delete more keys than one
	// transaction can. DB.Apply has no such limit.
	ErrTooManyDeletes = errors.New("store: too many keys to delete in one transaction")
)

// maxImplicitDeletes is the maximum number of keys that Tx.Apply deletes in ranges.
const maxImplicitDeletes = 1024

// Apply applies ops, decoded by DecodeOps, to the hosts and out-links of p at a replica.
// It skips operations for hosts that are not in p: either the owner's log contains that
// they left, or this peer owns them. Applying the same operations again in order does
// not change the final state. Entries keep their positions; later entries of this peer
// are queued behind them. Errors wrap ErrInvalidOps, ErrHostConflict or
// ErrTooManyDeletes; the transaction must not be committed then.
func (tx *Tx) Apply(p netip.Prefix, ops []Op) error {
	a := applier{tx: tx, p: p, ops: ops, deletesLeft: maxImplicitDeletes}
	for i := range ops {
		if err := a.apply(&ops[i]); err != nil {
			return err
		}
	}
	return nil
}

type applier struct {
	tx          *Tx
	p           netip.Prefix
	ops         []Op
	keep        map[string]bool // keys that ops set; nil until needed
	deletesLeft int
}

// hasHostIn reports whether the host is in the subnet at this peer.
func (tx *Tx) hasHostIn(p netip.Prefix, host string) (bool, error) {
	h, err := tx.Host(host)
	return err == nil && h.Subnet == p, IgnoreNotFound(err)
}

func (a *applier) apply(o *Op) error {
	switch o.Kind {
	case OpHost:
		return a.putHost(o)
	case OpOutlink:
		return a.tx.put(o.key(a.p), o.Pending)
	case OpDeleteOutlink:
		return a.tx.del(o.key(a.p))
	case OpClearHosts:
		return a.clearHosts(o)
	case OpClearOutlinks:
		return a.clearRange(outlinkPrefix(spaceReplicaOutlink, a.p), o)
	}
	if ok, err := a.tx.hasHostIn(a.p, o.Name); err != nil || !ok {
		return err
	}
	if o.Kind == OpClear {
		return a.clearRange(hostPrefix(o.Space, o.Name), o)
	}
	return a.applyToHost(o)
}

// applyToHost applies an operation to a host in the subnet.
func (a *applier) applyToHost(o *Op) error {
	switch o.Kind {
	case OpDeleteHost:
		return a.dropHost(o.Name)
	case OpEntry:
		return a.putEntry(o)
	case OpVisit:
		return a.tx.put(o.key(a.p), o.Visit)
	case OpGivenUp:
		return a.tx.put(o.key(a.p), o.GivenUp)
	case OpSeen, OpRevisit, OpDue:
		return a.tx.set(o.key(a.p), nil)
	case OpState:
		return a.tx.PutState(o.Name, o.Raw)
	case OpRobots:
		return a.tx.PutRobots(o.Origin, o.Raw)
	case OpDeleteEntry, OpDeleteSeen, OpDeleteRevisit, OpDeleteVisit, OpDeleteGivenUp, OpDeleteDue,
		OpDeleteState:
		return a.tx.del(o.key(a.p))
	}
	return fmt.Errorf("%w: kind %d", ErrInvalidOps, o.Kind)
}

// putHost writes the record of a host, unless the host is in another subnet and stays.
func (a *applier) putHost(o *Op) error {
	if o.Rec.Subnet != a.p {
		return fmt.Errorf("%w: host %.100q of %v", ErrInvalidOps, o.Name, o.Rec.Subnet)
	}
	switch old, err := a.tx.Host(o.Name); {
	case errors.Is(err, ErrNotFound):
	case err != nil:
		return err
	case old.Subnet != a.p:
		if ok, err := a.mayReplace(old, o.Rec); err != nil || !ok {
			return err
		}
		// The operations that follow set or clear everything but files that the owner may have
		// dropped in a part of the other log that has not come yet.
		if err := a.dropRobots(o.Name); err != nil {
			return err
		}
	}
	a.tx.PutHost(*o.Rec)
	a.tx.hosts[o.Name].verbatim = true
	a.tx.raiseSeq(o.Rec.SubnetSeq)
	return nil
}

// mayReplace reports whether a host may move from another subnet to a.p. It may if this
// peer does not know the other subnet. It may if this peer is a replica of both subnets
// for the same owner, the logs of which can be read in any order, and the other record
// is older. It may not if the peer owns the other subnet.
func (a *applier) mayReplace(old, rec *Host) (bool, error) {
	there, err := a.tx.Subnet(old.Subnet)
	if errors.Is(err, ErrNotFound) {
		return true, nil
	}
	if err != nil || there.Phase != PhaseReplica {
		return false, err
	}
	here, err := a.tx.Subnet(a.p)
	if err = IgnoreNotFound(err); err != nil {
		return false, err
	}
	if here.Owner == "" || here.Owner != there.Owner {
		return false, fmt.Errorf("%w: %q in %v, not in %v", ErrHostConflict, rec.Name, old.Subnet,
			a.p)
	}
	return old.SubnetSeq < rec.SubnetSeq, nil
}

// putEntry queues an entry at its position.
func (a *applier) putEntry(o *Op) error {
	d := o.Entry.URL.Digest()
	if o.Seen {
		if err := a.tx.set(digestKey(spaceSeen, o.Name, d), nil); err != nil {
			return err
		}
	}
	if o.Revisit {
		if err := a.tx.set(digestKey(spaceRevisit, o.Name, d), nil); err != nil {
			return err
		}
	}
	a.tx.raiseSeq(o.Seq)
	return a.tx.putEntry(o.Name, queueKey(o.Name, o.Depth, o.Seq), *o.Entry, 0)
}

// raiseSeq makes the sequence numbers of later entries greater than seq.
func (tx *Tx) raiseSeq(seq uint64) { tx.seq = max(tx.seq, min(seq, maxLocalSeq)) }

// dropHost deletes all keys of a host.
func (a *applier) dropHost(host string) error {
	for _, s := range snapshotSpaces {
		if err := a.deleteIn(hostPrefix(s.space, host), "", "", nil); err != nil {
			return err
		}
	}
	if err := a.dropRobots(host); err != nil {
		return err
	}
	return a.tx.dropRecord(host)
}

// dropRobots deletes the robots.txt files of a host.
func (a *applier) dropRobots(host string) error {
	keys, err := a.tx.robotsKeys(host, a.deletesLeft+1)
	if err != nil {
		return err
	}
	return a.del(keys)
}

// clearRange deletes the keys in the range of o that ops do not set.
func (a *applier) clearRange(prefix []byte, o *Op) error {
	return a.deleteIn(prefix, o.Lo, o.Hi, a.keptKeys())
}

// deleteIn deletes the keys with a prefix in the range (lo, hi], except those in keep.
func (a *applier) deleteIn(prefix []byte, lo, hi string, keep map[string]bool) error {
	keys, err := a.tx.keysToClear(prefix, lo, hi, keep, a.deletesLeft+1)
	if err != nil {
		return err
	}
	return a.del(keys)
}

// del deletes keys, if not too many are deleted.
func (a *applier) del(keys [][]byte) error {
	if len(keys) > a.deletesLeft {
		return ErrTooManyDeletes
	}
	a.deletesLeft -= len(keys)
	return a.tx.del(keys...)
}

// keysToClear returns up to n keys with a prefix in the range (lo, hi], except those in
// keep. An empty bound means no bound.
func (tx *Tx) keysToClear(
	prefix []byte, lo, hi string, keep map[string]bool, n int,
) (keys [][]byte, err error) {
	err = tx.each(prefix, keyBehind(prefix, lo), false, func(key []byte, _ kv.Item) (bool, error) {
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

// clearHosts deletes the hosts in the range of o.
func (a *applier) clearHosts(o *Op) error {
	names, err := a.tx.hostsBetween(a.p, o.Lo, o.Hi, a.deletesLeft+1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if a.deletesLeft--; a.deletesLeft < 0 {
			return ErrTooManyDeletes
		}
		if err := a.dropHost(name); err != nil {
			return err
		}
	}
	return nil
}

// hostsBetween returns up to n hosts of p with names in the range (lo, hi).
func (tx *Tx) hostsBetween(p netip.Prefix, lo, hi string, n int) (names []string, err error) {
	if tx.update {
		if err := tx.flushHosts(); err != nil {
			return nil, err
		}
	}
	prefix := subnetHostPrefix(p)
	err = tx.each(prefix, keyBehind(prefix, lo), false, func(key []byte, _ kv.Item) (bool, error) {
		name := string(key[len(prefix):])
		if hi != "" && name >= hi {
			return false, nil
		}
		names = append(names, name)
		return len(names) < n, nil
	})
	return names, err
}

// keptKeys returns the keys that the ops set.
func (a *applier) keptKeys() map[string]bool {
	if a.keep == nil {
		a.keep = keysSetBy(a.p, a.ops)
	}
	return a.keep
}

func keysSetBy(p netip.Prefix, ops []Op) map[string]bool {
	keep := map[string]bool{}
	for i := range ops {
		switch o := &ops[i]; o.Kind {
		case OpEntry, OpSeen, OpRevisit, OpVisit, OpGivenUp, OpDue, OpOutlink:
			keep[string(o.key(p))] = true
		}
	}
	return keep
}

// key returns the key that o sets or deletes at a replica of p; nil if o is of another kind.
func (o *Op) key(p netip.Prefix) []byte {
	switch o.Kind {
	case OpEntry, OpDeleteEntry:
		return queueKey(o.Name, o.Depth, o.Seq)
	case OpSeen, OpDeleteSeen:
		return digestKey(spaceSeen, o.Name, o.Digest)
	case OpRevisit, OpDeleteRevisit:
		return digestKey(spaceRevisit, o.Name, o.Digest)
	case OpVisit, OpDeleteVisit:
		return digestKey(spaceVisit, o.Name, o.digest())
	case OpGivenUp, OpDeleteGivenUp:
		return digestKey(spaceGivenUp, o.Name, o.digest())
	case OpDue, OpDeleteDue:
		return dueMillisKey(o.Name, o.Due, o.Digest)
	case OpOutlink, OpDeleteOutlink:
		return outlinkKey(spaceReplicaOutlink, p, o.digest())
	case OpDeleteState:
		return spaceKey(spaceState, o.Name)
	}
	return nil
}

// digest returns the digest of the URL that o contains, or else o.Digest.
func (o *Op) digest() Digest {
	if u, ok := o.URL(); ok {
		return u.Digest()
	}
	return o.Digest
}

// dueMillisKey is dueKey for a due time in Unix milliseconds.
func dueMillisKey(host string, ms int64, d Digest) []byte {
	k := binary.BigEndian.AppendUint64(hostPrefix(spaceDue, host), uint64(ms))
	return append(k, d[:]...)
}

// Apply applies ops as Tx.Apply does, and calls also, if it is not nil, in the same
// transaction. If more keys have to be deleted than one transaction can, Apply deletes
// them before, in transactions of limited size. If it is interrupted, applying the same
// operations again, or starting further back, completes it. A replica uses it for the
// snapshot pieces and log records of the owner.
func (d *DB) Apply(p netip.Prefix, ops []Op, also func(*Tx) error) error {
	all := func(tx *Tx) error {
		if err := tx.Apply(p, ops); err != nil || also == nil {
			return err
		}
		return also(tx)
	}
	err := d.Batch(all)
	if !errors.Is(err, ErrTooManyDeletes) {
		return err
	}
	if err := d.deleteImplicit(p, ops); err != nil {
		return err
	}
	return d.Batch(all)
}

// deleteImplicit deletes the keys in the ranges that ops clear.
func (d *DB) deleteImplicit(p netip.Prefix, ops []Op) error {
	keep := keysSetBy(p, ops)
	for i := range ops {
		var err error
		switch o := &ops[i]; o.Kind {
		case OpClear:
			err = d.deleteRange(p, hostPrefix(o.Space, o.Name), o, keep)
		case OpClearOutlinks:
			err = d.deleteRange(p, outlinkPrefix(spaceReplicaOutlink, p), o, keep)
		case OpDeleteHost:
			err = d.DropHostIn(p, o.Name)
		case OpClearHosts:
			err = d.dropHostsBetween(p, o.Lo, o.Hi)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) deleteRange(p netip.Prefix, prefix []byte, o *Op, keep map[string]bool) error {
	return d.updateWhile(func(tx *Tx) (more bool, err error) {
		if o.Name != "" {
			ok, err := tx.hasHostIn(p, o.Name)
			if err != nil || !ok {
				return false, err
			}
		}
		keys, err := tx.keysToClear(prefix, o.Lo, o.Hi, keep, deleteBatchSize)
		if err != nil {
			return false, err
		}
		return len(keys) == deleteBatchSize, tx.del(keys...)
	})
}

func (d *DB) dropHostsBetween(p netip.Prefix, lo, hi string) error {
	var names []string
	err := d.View(func(tx *Tx) (err error) {
		names, err = tx.hostsBetween(p, lo, hi, 1<<20)
		return err
	})
	for _, name := range names {
		if err == nil {
			err = d.DropHostIn(p, name)
		}
	}
	return err
}
