package store

import (
	"net/netip"
	"time"
)

// An out-link of a subnet is a pending URL that was found on a page of the subnet
// (Pending.FromSubnet). An index has them by subnet. A replica stores the out-links in a key space
// of their own until they are promoted.

func outlinkPrefix(space byte, p netip.Prefix) []byte { return hostPrefix(space, p.String()) }

func outlinkKey(space byte, p netip.Prefix, d Digest) []byte {
	return digestKey(space, p.String(), d)
}

// setFromSubnet sets p.FromSubnet to the home subnet of p.From.
func (tx *Tx) setFromSubnet(p *Pending) error {
	p.FromSubnet = netip.Prefix{}
	if p.From == "" {
		return nil
	}
	h, err := tx.Host(p.From)
	if err == nil {
		p.FromSubnet = h.Subnet
	}
	return IgnoreNotFound(err)
}

// putPending stores a pending URL with FromSubnet set.
func (tx *Tx) putPending(p Pending) error {
	digest := p.URL.Digest()
	val, err := encMode.Marshal(p)
	if err != nil {
		return err
	}
	if p.FromSubnet.IsValid() {
		if err := tx.indexOutlink(p.FromSubnet, p.URL, digest, val); err != nil {
			return err
		}
	}
	return tx.set(digestKey(spacePending, p.URL.Host(), digest), val)
}

// logOutlink logs a change of an out-link of p.
func (tx *Tx) logOutlink(p netip.Prefix, op wireOp) {
	if tx.log == nil || !p.IsValid() || !tx.d.logs.logged(p) {
		return
	}
	tx.log.outlinks[p] = append(tx.log.outlinks[p], op)
	tx.log.bytes += op.size()
}

// reassignOutlink is AddPending for a URL that is pending already. If it is an out-link
// of a subnet without a change log, it becomes one of p.FromSubnet.
func (tx *Tx) reassignOutlink(key []byte, p Pending) error {
	if tx.log == nil || !p.FromSubnet.IsValid() || !tx.d.logs.logged(p.FromSubnet) {
		return nil
	}
	var old Pending
	if err := tx.get(key, &old); err != nil {
		return err
	}
	if old.FromSubnet == p.FromSubnet || old.FromSubnet.IsValid() &&
		tx.d.logs.logged(old.FromSubnet) {
		return nil
	}
	if old.FromSubnet.IsValid() {
		if err := tx.unindexOutlink(old.FromSubnet, p.URL.Digest()); err != nil {
			return err
		}
	}
	old.From, old.FromSubnet = p.From, p.FromSubnet
	return tx.putPending(old)
}

// unindexPending removes a URL that is no longer pending from the index.
func (tx *Tx) unindexPending(key []byte, d Digest) error {
	var old Pending
	if err := tx.get(key, &old); err != nil || !old.FromSubnet.IsValid() {
		return IgnoreNotFound(err)
	}
	return tx.unindexOutlink(old.FromSubnet, d)
}

// unindexOutlink removes a URL that is no longer a pending URL of p from the index.
func (tx *Tx) unindexOutlink(p netip.Prefix, d Digest) error {
	key := outlinkKey(spaceOutlinkIndex, p, d)
	val, err := tx.indexedOutlink(p, d)
	switch {
	case err != nil || len(val) == 0 || val[0] == crossOnly:
		return err
	case val[0] == crossAndPending:
		val[0] = crossOnly
		return tx.set(key, val)
	}
	tx.logOutlink(p, wireOp{Kind: OpDeleteOutlink, Key: d[:]})
	return tx.del(key)
}

// indexOutlink adds a pending URL, encoded in pending, to the index.
func (tx *Tx) indexOutlink(p netip.Prefix, u URL, d Digest, pending []byte) error {
	key := outlinkKey(spaceOutlinkIndex, p, d)
	val, err := tx.indexedOutlink(p, d)
	if err != nil {
		return err
	}
	if isCrossLink(val) {
		val[0] = crossAndPending
		return tx.set(key, val)
	}
	tx.logOutlink(p, wireOp{Kind: OpOutlink, Val: pending})
	return tx.set(key, []byte(u.Host()))
}

// Outlinks calls fn for the out-links that this peer stores as a replica of p, in the
// order of their digests. fn returns false to stop.
func (tx *Tx) Outlinks(p netip.Prefix, fn func(Pending) (bool, error)) error {
	return eachValue(tx, outlinkPrefix(spaceReplicaOutlink, p), nil,
		func(_ []byte, o Pending) (bool, error) { return fn(o) })
}

// promoteBatchSize is the number of out-links that one transaction promotes.
const promoteBatchSize = 300

// PromoteOutlinks turns the out-links that this peer stores as a replica of p into
// pending URLs of FinderRelayed, and returns how many new ones each host has. It uses
// transactions of limited size. If it is interrupted, calling it again completes it, but
// does not count again what was done before.
func (d *DB) PromoteOutlinks(p netip.Prefix) (byHost map[string]int, err error) {
	byHost = map[string]int{}
	for more := true; more; {
		var fresh []Pending
		err := d.Update(func(tx *Tx) (err error) {
			fresh, more, err = tx.promoteBatch(p)
			return err
		})
		if err != nil {
			return byHost, err
		}
		for _, o := range fresh {
			byHost[o.URL.Host()]++
		}
	}
	return byHost, nil
}

func (tx *Tx) promoteBatch(p netip.Prefix) (fresh []Pending, more bool, err error) {
	var all []Pending
	err = tx.Outlinks(p, func(o Pending) (bool, error) {
		all = append(all, o)
		more = len(all) == promoteBatchSize
		return !more, nil
	})
	if err != nil {
		return nil, false, err
	}
	for _, o := range all {
		if err := tx.del(outlinkKey(spaceReplicaOutlink, p, o.URL.Digest())); err != nil {
			return nil, false, err
		}
		o.Finder = FinderRelayed
		if o.FromSubnet = p; o.Found.IsZero() { // cross-links have no time
			o.Found = time.Now()
		}
		isNew, err := tx.addResolved(o)
		if err != nil {
			return nil, false, err
		}
		if isNew {
			fresh = append(fresh, o)
		}
	}
	return fresh, more, nil
}

// DropOutlinks deletes the out-links that this peer stores as a replica of p. It uses
// transactions of limited size.
func (d *DB) DropOutlinks(p netip.Prefix) error {
	return d.deleteAll(outlinkPrefix(spaceReplicaOutlink, p), always)
}
