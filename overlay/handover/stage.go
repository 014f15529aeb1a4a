package handover

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/store"
)

// stage marks a subnet as being received, and sweeps away what an earlier,
// broken handover may have left.
func (r *Receiver) stage(o Offer) error {
	if err := r.unstage(o.Subnet); err != nil {
		return err
	}
	return r.DB.Update(func(tx *store.Tx) error {
		switch old, err := tx.Subnet(o.Subnet); {
		case err == nil:
			return fmt.Errorf("handover: subnet %v is %v here", o.Subnet, old.Phase)
		case !errors.Is(err, store.ErrNotFound):
			return err
		}
		return tx.PutSubnet(store.Subnet{Prefix: o.Subnet, Phase: store.PhaseStaged, Epoch: o.Epoch, Since: time.Now()})
	})
}

// unstage forgets a subnet that is staged and was not adopted, with all its
// hosts. One that is ours is left alone.
func (r *Receiver) unstage(p netip.Prefix) error {
	var hosts []store.Host
	err := r.DB.View(func(tx *store.Tx) error {
		if ours, err := owned(tx, p); err != nil || ours {
			return err
		}
		var err error
		hosts, err = tx.HostsOf(p)
		return err
	})
	for _, h := range hosts {
		if err == nil {
			err = r.DB.DropHost(h.Name)
		}
	}
	if err != nil {
		return err
	}
	return r.DB.Update(func(tx *store.Tx) error {
		if ours, err := owned(tx, p); err != nil || ours {
			return err
		}
		return tx.DeleteSubnet(p)
	})
}

// owned says whether p is ours: it has a state, and that is not "staged".
func owned(tx *store.Tx, p netip.Prefix) (bool, error) {
	s, err := tx.Subnet(p)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	return err == nil && s.Phase != store.PhaseStaged, err
}

// Sweep forgets what handovers that broke off with the process have left. It
// is for the start, before Serve.
func (r *Receiver) Sweep() error {
	var staged []netip.Prefix
	err := r.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(s store.Subnet) error {
			if s.Phase == store.PhaseStaged {
				staged = append(staged, s.Prefix)
			}
			return nil
		})
	})
	for _, p := range staged {
		if err == nil {
			err = r.unstage(p)
		}
	}
	if err != nil {
		return fmt.Errorf("handover: sweep: %w", err)
	}
	return nil
}
