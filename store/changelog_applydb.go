package store

import (
	"errors"
	"net/netip"
)

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
			err = d.dropHostIn(p, o.Name)
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
	for n := deleteBatchSize; n == deleteBatchSize; {
		err := d.Update(func(tx *Tx) error {
			if o.Name != "" {
				ok, err := (&applier{tx: tx, p: p}).hasHost(o.Name)
				if err != nil || !ok {
					n = 0
					return err
				}
			}
			keys, err := tx.keysToClear(prefix, o.Lo, o.Hi, keep, deleteBatchSize)
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

// dropHostIn deletes a host if it is in p.
func (d *DB) dropHostIn(p netip.Prefix, host string) error {
	var here bool
	err := d.View(func(tx *Tx) (err error) {
		here, err = (&applier{tx: tx, p: p}).hasHost(host)
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
