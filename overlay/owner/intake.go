package owner

import (
	"errors"
	"sync/atomic"
	"time"

	"peerd/store"
)

// errDiskFull is returned while the disk has no free space for what this peer has to write
// down as an owner.
var errDiskFull = errors.New("owner: the disk is full")

// diskFullLogEvery is the least time between log messages about a full disk.
const diskFullLogEvery = 10 * time.Second

// intake is the part of a Manager that knows why this peer takes in no subnets: it leaves, or its
// disk is full. It also writes down what could not be written on a full disk.
type intake struct {
	*table
	draining       atomic.Bool
	diskFull       atomic.Bool // the last write failed for lack of disk space
	diskFullLogged time.Time   // guarded by mu
}

// noteDiskFull handles an error of the store. A full disk is not fatal: nothing new is
// accepted then, state in memory is written later (saveLate), and leases, which need no
// disk, are renewed. It returns fatal errors.
func (in *intake) noteDiskFull(err error) error {
	if !store.IsNoSpace(err) {
		return err
	}
	now := time.Now()
	in.mu.Lock()
	loud := now.Sub(in.diskFullLogged) >= diskFullLogEvery
	if loud {
		in.diskFullLogged = now
	}
	in.mu.Unlock()
	in.diskFull.Store(true)
	if loud {
		in.log.Error("failed to save state of owned subnets: disk full", "err", err)
	}
	return nil
}

// saveLate writes down what was changed while there was no free space, and finds out
// whether there is some again. The error is one of the store.
func (in *intake) saveLate() error {
	var late []*subnet
	in.mu.Lock()
	for _, s := range in.subnets {
		if s.disk == diskUnsaved {
			late = append(late, s)
		}
	}
	in.mu.Unlock()
	for _, s := range late {
		if err := in.save(s); err != nil {
			return in.noteDiskFull(err)
		}
	}
	if len(late) > 0 || !in.diskFull.Load() {
		return nil
	}
	err := in.cfg.DB.Probe()
	if err == nil {
		in.diskFull.Store(false)
	}
	return in.noteDiskFull(err)
}
