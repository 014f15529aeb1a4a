package replica

import (
	"context"
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// After a restart this peer has to know how long its owners have been without it. So it
// writes until when each owner counted on it, every few seconds and for all links in one
// transaction. The progress of a copy has the number of the link on which it was current
// last; the time is valid for the copies with that number.

// confirmedInterval is how often these times are written.
const confirmedInterval = 5 * time.Second

// Uptime returns how long the machine has been running, independent of its clock; boot
// identifies the start of the machine. ok is false if that is not known.
type Uptime func() (boot string, up time.Duration, ok bool)

// confirmation is the record of a link on the disk. The wall clock alone would not do,
// because it may have been set back while this peer was away.
type confirmation struct {
	Link uint64        `cbor:"1,keyasint"`
	At   time.Time     `cbor:"2,keyasint"` // until then the owner counted on this peer
	Boot string        `cbor:"3,keyasint"`
	Up   time.Duration `cbor:"4,keyasint"` // of the machine, at At
}

// age returns how long ago At was, by the clock or the uptime, whichever shows more.
// ok is false if that is not known: after a restart of the machine, or if either has
// gone backwards.
func (x confirmation) age(now time.Time, boot string, up time.Duration) (time.Duration, bool) {
	byClock, byMachine := now.Sub(x.At), up-x.Up
	return max(byClock, byMachine), boot == x.Boot && byClock >= 0 && byMachine >= 0
}

// runConfirmed writes the confirmed times of links, until ctx ends.
func (s *server) runConfirmed(ctx context.Context) {
	if s.cfg.Uptime == nil {
		return
	}
	every := time.NewTicker(confirmedInterval)
	defer every.Stop()
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-every.C:
		}
		if err := s.saveConfirmed(); err != nil {
			s.cfg.Logger.Error("failed to save replica acknowledgement times", "err", err)
		}
	}
}

// saveConfirmed writes the times that have changed since they were saved.
func (s *server) saveConfirmed() error {
	boot, up, ok := s.cfg.Uptime()
	if !ok {
		return nil
	}
	now := time.Now()
	changed := map[peer.ID]confirmation{}
	s.mu.Lock()
	for id, in := range s.links {
		if at, used := in.confirmedAt(); used && at.After(in.saved) {
			in.saved = at
			changed[id] = confirmation{Link: in.id, At: at, Boot: boot, Up: up - now.Sub(at)}
		}
	}
	s.mu.Unlock()
	if len(changed) == 0 {
		return nil
	}
	return s.cfg.DB.Update(func(tx *store.Tx) error {
		for id, x := range changed {
			b, err := cbor.Marshal(x)
			if err == nil {
				err = tx.PutData(confirmedKey(id), b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func confirmedKey(owner peer.ID) string { return confirmedSpace + owner.String() }

const confirmedSpace = "replica/confirmed/"

// loadConfirmed returns until when, by the clock of this process, the owner counted on a
// copy on the disk; the zero time if that is not known.
func (c *Config) loadConfirmed(tx *store.Tx, r *heldCopy) (time.Time, error) {
	if r.progress.Link == 0 || c.Uptime == nil {
		return time.Time{}, nil
	}
	b, err := tx.Data(confirmedKey(r.owner))
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	var x confirmation
	if err == nil {
		err = cbor.Unmarshal(b, &x)
	}
	boot, up, ok := c.Uptime()
	if err != nil || !ok || x.Link != r.progress.Link {
		return time.Time{}, err
	}
	now := time.Now()
	ago, ok := x.age(now, boot, up)
	if !ok {
		return time.Time{}, nil
	}
	return now.Add(-ago), nil
}

// markCurrent records, on the disk too, that a copy opened on a link receives changes
// there. The caller has locked the subnet.
func (cs *copies) markCurrent(in *replicaLink, r *heldCopy) error {
	if r.current {
		return nil
	}
	if at := r.progress; at.Link != in.id && cs.cfg.Uptime != nil {
		at.Link = in.id
		if err := cs.write(r, nil, at); err != nil {
			return err
		}
	}
	cs.mu.Lock()
	r.current = true
	cs.mu.Unlock()
	return nil
}

// markOutdated records that a copy no longer receives changes, although its link
// continues. The caller has locked the subnet.
func (cs *copies) markOutdated(r *heldCopy) {
	at := r.progress
	if at.Link == 0 {
		return
	}
	at.Link = 0
	if err := cs.write(r, nil, at); err != nil {
		cs.cfg.Logger.Error("failed to write copy", "subnet", r.subnet, "err", err)
	}
}
