package owner

import (
	"errors"
	"time"

	"peerd/store"
)

// errDiskFull is returned while the disk has no free space for what this peer has to write
// down as an owner.
var errDiskFull = errors.New("owner: the disk is full")

// diskFullLogEvery is the least time between log messages about a full disk.
const diskFullLogEvery = 10 * time.Second

// noteDiskFull handles an error of the store. A full disk is not fatal: nothing new is
// accepted then, state in memory is written later (saveLate), and leases, which need no
// disk, are renewed. It returns fatal errors.
func (t *table) noteDiskFull(err error) error {
	if !store.IsNoSpace(err) {
		return err
	}
	now := time.Now()
	t.mu.Lock()
	loud := now.Sub(t.diskFullLogged) >= diskFullLogEvery
	if loud {
		t.diskFullLogged = now
	}
	t.mu.Unlock()
	t.diskFull.Store(true)
	if loud {
		t.log.Error("failed to save state of owned subnets: disk full", "err", err)
	}
	return nil
}

// saveLate writes down what was changed while there was no free space, and finds out
// whether there is some again. The error is one of the store.
func (t *table) saveLate() error {
	var late []*subnet
	t.mu.Lock()
	for _, s := range t.subnets {
		if s.disk == diskUnsaved {
			late = append(late, s)
		}
	}
	t.mu.Unlock()
	for _, s := range late {
		if err := t.save(s); err != nil {
			return t.noteDiskFull(err)
		}
	}
	if len(late) > 0 || !t.diskFull.Load() {
		return nil
	}
	err := t.cfg.DB.Probe()
	if err == nil {
		t.diskFull.Store(false)
	}
	return t.noteDiskFull(err)
}
