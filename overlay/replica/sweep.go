package replica

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"time"

	"peerd/internal/backoff"
	"peerd/internal/clock"
	"peerd/store"
)

// wipeRetry is the time after which a wipe that failed is tried again; it is doubled up to
// longestWipeRetry. Owners that open a copy of the subnet are told to wait until then.
const wipeRetry, longestWipeRetry = 15 * time.Second, 4 * time.Minute

// runSweep wipes dropped copies, drops useless ones and renews those that lack hosts, until ctx
// ends.
func (cs *copies) runSweep(ctx context.Context) {
	every := time.NewTicker(max(cs.cfg.SweepAfter/100, 10*time.Millisecond))
	defer every.Stop()
	renew := time.NewTicker(renewInterval)
	defer renew.Stop()
	var retry <-chan time.Time // nil: the last wipe did not fail
	for failed := 0; ; {
		switch {
		case retry != nil:
		case cs.wipeAll(ctx):
			failed = 0
		default:
			retry = time.After(backoff.Double(wipeRetry, longestWipeRetry, failed))
			failed++
		}
		select {
		case <-ctx.Done():
			return
		case <-cs.wipeAdded:
		case <-retry:
			retry = nil
		case <-renew.C:
			omissions{cs}.renewAll()
		case <-every.C:
			cs.sweep(time.Now())
			if err := cs.sweepOwners(); err != nil {
				cs.cfg.Logger.Error("failed to delete records of former owners", "err", err)
			}
		}
	}
}

// wipeAll wipes the dropped copies until ctx ends. If it fails, as on a full disk, it returns false
// and leaves the rest for the next call.
func (cs *copies) wipeAll(ctx context.Context) bool {
	for p, ok := cs.nextWipe(); ok && ctx.Err() == nil; p, ok = cs.nextWipe() {
		if err := cs.wipe(ctx, p); err != nil && ctx.Err() == nil {
			cs.cfg.Logger.Error("failed to wipe copy", "subnet", p, "err", err)
			cs.mu.Lock()
			cs.wipes = append(cs.wipes, p)
			cs.mu.Unlock()
			return false
		}
	}
	return true
}

func (cs *copies) nextWipe() (netip.Prefix, bool) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.wipes) == 0 {
		return netip.Prefix{}, false
	}
	p := cs.wipes[0]
	cs.wipes = cs.wipes[1:]
	return p, true
}

// wipe deletes everything of a subnet that was dropped. If it is interrupted, the next
// start repeats it.
func (cs *copies) wipe(ctx context.Context, p netip.Prefix) error {
	var hosts []store.Host
	staged := false
	err := cs.cfg.DB.View(func(tx *store.Tx) (err error) {
		if staged, err = isStaged(tx, p); err != nil || !staged {
			return err
		}
		hosts, err = tx.HostsOf(p)
		return err
	})
	if err != nil || !staged {
		return err
	}
	for _, h := range hosts {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := cs.cfg.DB.DropHost(h.Name); err != nil {
			return err
		}
	}
	if err := cs.cfg.DB.DropOutlinks(p); err != nil {
		return err
	}
	return cs.cfg.DB.Update(func(tx *store.Tx) error {
		if ok, err := isStaged(tx, p); err != nil || !ok {
			return err
		}
		return errors.Join(tx.DeleteData(progressKey(p)), tx.DeleteSubnet(p))
	})
}

func isStaged(tx *store.Tx, p netip.Prefix) (bool, error) {
	rec, err := tx.Subnet(p)
	return rec.Phase == store.PhaseStaged, store.IgnoreNotFound(err)
}

// sweep drops copies that are incomplete and were not updated for long, and those of an
// owner that has lost the subnet.
func (cs *copies) sweep(now time.Time) {
	var old []*heldCopy
	cs.mu.Lock()
	for _, r := range cs.held {
		if r.link == nil {
			old = append(old, r)
		}
	}
	cs.mu.Unlock()
	for _, r := range old {
		cs.mu.Lock()
		idle, complete := now.Sub(clock.Later(r.since, r.heard)), r.progress.complete()
		owner, epoch, p := r.owner, r.epoch, r.subnet
		_, pinned := cs.pinned[p]
		cs.mu.Unlock()
		by, best, known := cs.cfg.Policy.CurrentLease(p)
		lost := known && best > epoch && by != owner && !cs.takenOver(p, epoch)
		due := lost && idle > cs.cfg.SweepAfter/24 || !complete && idle > cs.cfg.SweepAfter
		if !due || pinned {
			continue
		}
		cs.cfg.Logger.Info("dropped copy", "subnet", p, "owner", owner, "complete", complete)
		if err := cs.dropIf(p, func(r *heldCopy) bool {
			return r.link == nil && r.epoch == epoch
		}); err != nil {
			cs.cfg.Logger.Error("failed to drop copy", "subnet", p, "err", err)
		}
	}
}

// sweepOwners deletes the witness sets and the confirmed times of owners of which there is no copy
// any more.
func (cs *copies) sweepOwners() error {
	cs.setting.Lock()
	defer cs.setting.Unlock()
	cs.mu.Lock()
	wanted := make(map[string]bool, len(cs.numbers))
	for owner := range cs.numbers {
		wanted[owner.String()] = true
	}
	cs.mu.Unlock()
	return cs.cfg.DB.Update(func(tx *store.Tx) error {
		var left []string
		for _, space := range []string{witnessSetSpace, confirmedSpace} {
			err := tx.EachData(space, func(key string, _ []byte) (bool, error) {
				if !wanted[strings.TrimPrefix(key, space)] {
					left = append(left, key)
				}
				return len(left) < maxSwept, nil
			})
			if err != nil {
				return err
			}
		}
		for _, key := range left {
			if err := tx.DeleteData(key); err != nil {
				return err
			}
		}
		return nil
	})
}

// maxSwept is about how many records of former owners are deleted at a time.
const maxSwept = 10_000
