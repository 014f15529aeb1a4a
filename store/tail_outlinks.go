package store

import (
	"net/netip"
	"time"

	"peerd/store/kv"
)

// An out-link of a subnet is a URL that was found on a page there and waits in
// this peer's put-aside table (Pending.Home). The owner has an index of them by
// subnet, from the first StartTail on; a replica has the out-links themselves,
// in a space of their own, until they are promoted.

// indexState says how far the index is.
type indexState uint8

const (
	indexNone  indexState = iota
	indexBegun            // what is put aside enters it
	indexWhole            // what was there before is in it too
)

const indexMeta = "outlinks"

func outlinkPrefix(space byte, p netip.Prefix) []byte { return hostPrefix(space, p.String()) }

func outlinkKey(space byte, p netip.Prefix, d Digest) []byte {
	return digestKey(space, p.String(), d)
}

// indexOutlinks completes the index. It takes time once in the life of a store,
// as long as it takes to read what is put aside.
func (d *DB) indexOutlinks() error {
	for _, step := range []indexState{indexBegun, indexWhole} {
		if step == indexWhole {
			if err := d.indexOld(); err != nil {
				return err
			}
		}
		done := false
		err := d.Update(func(tx *Tx) error {
			if done = d.tail.indexed >= step; done {
				return nil
			}
			return tx.PutMeta(indexMeta, step)
		})
		if err != nil {
			return err
		}
		if !done {
			d.mu.Lock()
			d.tail.indexed = step
			d.mu.Unlock()
		}
	}
	return nil
}

// indexOld puts what was put aside before the index was begun into it.
func (d *DB) indexOld() error {
	d.mu.Lock()
	whole := d.tail.indexed == indexWhole
	d.mu.Unlock()
	if whole {
		return nil
	}
	var last []byte
	for more := true; more; {
		err := d.Update(func(tx *Tx) (err error) {
			last, more, err = tx.indexSome(last)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) indexSome(last []byte) (next []byte, more bool, err error) {
	var found []Pending
	n := 0
	err = tx.each([]byte{spacePending}, last, true, func(key []byte, it kv.Item) (bool, error) {
		var p Pending
		if err := it.Value(func(b []byte) error { return decode(key, b, &p) }); err != nil {
			return false, err
		}
		last = key
		if n++; p.From != "" && !p.Home.IsValid() {
			found = append(found, p)
		}
		more = n == 500
		return !more, nil
	})
	if err != nil {
		return nil, false, err
	}
	for _, p := range found {
		if err := tx.settle(&p); err != nil {
			return nil, false, err
		}
		if !p.Home.IsValid() {
			continue
		}
		if err := tx.putOutlink(p); err != nil {
			return nil, false, err
		}
	}
	return last, more, nil
}

// settle sets the subnet whose out-link p is: the home of the host that it was
// found at.
func (tx *Tx) settle(p *Pending) error {
	p.Home = netip.Prefix{}
	if p.From == "" || tx.d.tail.indexed == indexNone {
		return nil
	}
	h, err := tx.Host(p.From)
	if err == nil {
		p.Home = h.Subnet
	}
	return ignoreNotFound(err)
}

// putOutlink puts p aside; its Home is set.
func (tx *Tx) putOutlink(p Pending) error {
	digest := p.URL.Digest()
	val, err := encMode.Marshal(p)
	if err != nil {
		return err
	}
	if p.Home.IsValid() {
		if err := tx.link(p.Home, p.URL, digest, val); err != nil {
			return err
		}
	}
	return tx.set(digestKey(spacePending, p.URL.Host(), digest), val)
}

// logLink logs a change of an out-link of p.
func (tx *Tx) logLink(p netip.Prefix, op wireOp) {
	if tx.log == nil || !p.IsValid() || !tx.d.tail.logged(p) {
		return
	}
	tx.log.links[p] = append(tx.log.links[p], op)
	tx.log.bytes += op.size()
}

// deferAgain is Defer for a URL that waits already. If the subnet whose
// out-link it was is not logged, it becomes one of p's.
func (tx *Tx) deferAgain(key []byte, p Pending) error {
	if tx.log == nil || !p.Home.IsValid() || !tx.d.tail.logged(p.Home) {
		return nil
	}
	var old Pending
	if err := tx.get(key, &old); err != nil {
		return err
	}
	if old.Home == p.Home || old.Home.IsValid() && tx.d.tail.logged(old.Home) {
		return nil
	}
	if old.Home.IsValid() {
		if err := tx.unlink(old.Home, p.URL.Digest()); err != nil {
			return err
		}
	}
	old.From, old.Home = p.From, p.Home
	return tx.putOutlink(old)
}

// forgetOutlink takes a URL that waits no more out of the index.
func (tx *Tx) forgetOutlink(key []byte, d Digest) error {
	if tx.d.tail.indexed == indexNone {
		return nil
	}
	var old Pending
	if err := tx.get(key, &old); err != nil || !old.Home.IsValid() {
		return ignoreNotFound(err)
	}
	return tx.unlink(old.Home, d)
}

// unlink takes a URL that waits no more, or not as p's, out of the index.
func (tx *Tx) unlink(p netip.Prefix, d Digest) error {
	key := outlinkKey(spaceFrom, p, d)
	val, err := tx.linkAt(p, d)
	switch {
	case err != nil || len(val) == 0 || val[0] == crossMark:
		return err
	case val[0] == crossAndWaits:
		val[0] = crossMark
		return tx.set(key, val)
	}
	tx.logLink(p, wireOp{Kind: OpNoOutlink, Key: d[:]})
	return tx.del(key)
}

// link puts a URL that waits into the index; pending is how it is put aside.
func (tx *Tx) link(p netip.Prefix, u URL, d Digest, pending []byte) error {
	key := outlinkKey(spaceFrom, p, d)
	val, err := tx.linkAt(p, d)
	if err != nil {
		return err
	}
	if isCross(val) {
		val[0] = crossAndWaits
		return tx.set(key, val)
	}
	tx.logLink(p, wireOp{Kind: OpOutlink, Val: pending})
	return tx.set(key, []byte(u.Host()))
}

// Outlinks calls fn for the out-links of p that lie here as its replica's, by
// digest. fn returns false to end.
func (tx *Tx) Outlinks(p netip.Prefix, fn func(Pending) (bool, error)) error {
	return tx.each(outlinkPrefix(spaceOutlink, p), nil, true, func(key []byte, it kv.Item) (bool, error) {
		var o Pending
		if err := it.Value(func(b []byte) error { return decode(key, b, &o) }); err != nil {
			return false, err
		}
		return fn(o)
	})
}

// promoteAtOnce is how many out-links one transaction promotes.
const promoteAtOnce = 300

// PromoteOutlinks puts the out-links of p, which lie here as its replica's,
// aside like own finds, and returns how many of them are new for which host. It
// works in transactions of bounded size; cut short, doing it again completes
// it, but then what had been done is not among the counts.
func (d *DB) PromoteOutlinks(p netip.Prefix) ([]DeferredHost, error) {
	if err := d.indexOutlinks(); err != nil {
		return nil, err
	}
	sums := map[string]*DeferredHost{}
	for more := true; more; {
		var fresh []Pending
		err := d.Update(func(tx *Tx) (err error) {
			fresh, more, err = tx.promoteSome(p)
			return err
		})
		if err != nil {
			return deferredHosts(sums), err
		}
		for _, o := range fresh {
			sum := sums[o.URL.Host()]
			if sum == nil {
				sum = &DeferredHost{Host: o.URL.Host(), Oldest: o.Found}
				sums[sum.Host] = sum
			}
			if sum.Count++; o.Found.Before(sum.Oldest) {
				sum.Oldest = o.Found
			}
		}
	}
	return deferredHosts(sums), nil
}

func deferredHosts(sums map[string]*DeferredHost) (all []DeferredHost) {
	for _, s := range sums {
		all = append(all, *s)
	}
	return all
}

func (tx *Tx) promoteSome(p netip.Prefix) (fresh []Pending, more bool, err error) {
	var all []Pending
	err = tx.Outlinks(p, func(o Pending) (bool, error) {
		all = append(all, o)
		more = len(all) == promoteAtOnce
		return !more, nil
	})
	if err != nil {
		return nil, false, err
	}
	for _, o := range all {
		if err := tx.del(outlinkKey(spaceOutlink, p, o.URL.Digest())); err != nil {
			return nil, false, err
		}
		if o.Home = p; o.Found.IsZero() { // a cross-link
			o.Found = time.Now()
		}
		isNew, err := tx.deferTo(o)
		if err != nil {
			return nil, false, err
		}
		if isNew {
			fresh = append(fresh, o)
		}
	}
	return fresh, more, nil
}

// DropOutlinks forgets the out-links of p that lie here as its replica's. It
// works in transactions of bounded size.
func (d *DB) DropOutlinks(p netip.Prefix) error {
	return d.dropAll(outlinkPrefix(spaceOutlink, p))
}
