package store

import (
	"errors"
	"net/netip"
)

// Absorb does ops as Apply does, and also in the same transaction (nil: nothing
// else), however much has to be deleted for it: that goes before, in
// transactions of bounded size. Cut short anywhere, doing the same again, or
// beginning again further back, completes it. It is how a replica takes in what
// its owner sends: pieces of a snapshot, and records of the log.
func (d *DB) Absorb(p netip.Prefix, ops []Op, also func(*Tx) error) error {
	all := func(tx *Tx) error {
		if err := tx.Apply(p, ops); err != nil || also == nil {
			return err
		}
		return also(tx)
	}
	err := d.Batch(all)
	if !errors.Is(err, ErrStale) {
		return err
	}
	if err := d.clearStale(p, ops); err != nil {
		return err
	}
	return d.Batch(all)
}

// clearStale deletes what ops will delete unnamed.
func (d *DB) clearStale(p netip.Prefix, ops []Op) error {
	keep := keptBy(p, ops)
	for i := range ops {
		var err error
		switch o := &ops[i]; o.Kind {
		case OpClear:
			err = d.clearRange(p, hostPrefix(o.Space, o.Name), o, keep)
		case OpClearLinks:
			err = d.clearRange(p, outlinkPrefix(spaceOutlink, p), o, keep)
		case OpHostGone:
			err = d.dropHostOf(p, o.Name)
		case OpClearHosts:
			err = d.dropHostsBetween(p, o.Lo, o.Hi)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (d *DB) clearRange(p netip.Prefix, prefix []byte, o *Op, keep map[string]bool) error {
	for n := dropAtOnce; n == dropAtOnce; {
		err := d.Update(func(tx *Tx) error {
			if ok, err := (&applier{tx: tx, p: p}).has(o.Name); o.Name != "" && (err != nil || !ok) {
				n = 0
				return err
			}
			keys, err := tx.staleKeys(prefix, o.Lo, o.Hi, keep, dropAtOnce)
			if n = len(keys); err != nil {
				return err
			}
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

// dropHostOf drops a host if it is in p.
func (d *DB) dropHostOf(p netip.Prefix, host string) error {
	var here bool
	err := d.View(func(tx *Tx) (err error) {
		here, err = (&applier{tx: tx, p: p}).has(host)
		return err
	})
	if err != nil || !here {
		return err
	}
	return d.DropHost(host)
}

func (d *DB) dropHostsBetween(p netip.Prefix, lo, hi string) error {
	var names []string
	err := d.View(func(tx *Tx) (err error) {
		names, err = tx.hostsBetween(p, lo, hi, 1<<20)
		return err
	})
	for _, name := range names {
		if err == nil {
			err = d.DropHost(name)
		}
	}
	return err
}
