package shadow

import (
	"context"
	"errors"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/store"
)

// How long an owner has lived without this peer, after a restart of ours, is known if
// it is written down until when it counted on us: every few seconds, for all links
// in one transaction. Which copies that is true of the copies' places say, by the
// number of the link on which they were last in step.

// rememberEvery is how often that is written.
const rememberEvery = 5 * time.Second

// Uptime is how long a machine has been running, whatever its clock shows; boot names
// the start from which that counts. It is false if that cannot be known.
type Uptime func() (boot string, up time.Duration, ok bool)

// memory is what is on the disk of a link. By the clock alone it would not do: that
// may have been set back while this peer was away.
type memory struct {
	Link uint64        `cbor:"1,keyasint"`
	At   time.Time     `cbor:"2,keyasint"` // until then the owner counted on us
	Boot string        `cbor:"3,keyasint"`
	Up   time.Duration `cbor:"4,keyasint"` // of the machine, at At
}

// since is how long ago At was, by whichever shows more: the clock, or the machine.
// It is false if that is not known: after a restart of the machine, or when either
// has gone backwards.
func (x memory) since(now time.Time, boot string, up time.Duration) (time.Duration, bool) {
	byClock, byMachine := now.Sub(x.At), up-x.Up
	return max(byClock, byMachine), boot == x.Boot && byClock >= 0 && byMachine >= 0
}

// remember writes down until when owners counted on us, until ctx ends.
func (s *Service) remember(ctx context.Context) {
	if s.cfg.Uptime == nil {
		return
	}
	every := time.NewTicker(rememberEvery)
	defer every.Stop()
	told := map[peer.ID]time.Time{}
	for over := false; !over; {
		select {
		case <-ctx.Done():
			over = true
		case <-every.C:
		}
		if err := s.writeMemory(told); err != nil {
			s.log.Error("not written down until when owners counted on us", "err", err)
		}
	}
}

// writeMemory writes what is news of all links.
func (s *Service) writeMemory(told map[peer.ID]time.Time) error {
	boot, up, ok := s.cfg.Uptime()
	if !ok {
		return nil
	}
	now := time.Now()
	news := map[peer.ID]memory{}
	s.mu.Lock()
	for id, in := range s.inlinks {
		if in.counted.After(told[id]) && in.copies > 0 {
			told[id] = in.counted
			news[id] = memory{Link: in.id, At: in.counted, Boot: boot, Up: up - now.Sub(in.counted)}
		}
	}
	s.mu.Unlock()
	if len(news) == 0 {
		return nil
	}
	return s.cfg.DB.Update(func(tx *store.Tx) error {
		for id, x := range news {
			b, err := cbor.Marshal(x)
			if err == nil {
				err = tx.PutData(memoryKey(id), b)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func memoryKey(owner peer.ID) string { return "shadow/counted/" + owner.String() }

// recall returns until when, by the clock of this process, a copy on the disk was
// counted on by its owner; the zero time if that is not known.
func (s *Service) recall(tx *store.Tx, r *replica) (time.Time, error) {
	if r.place.Link == 0 || s.cfg.Uptime == nil {
		return time.Time{}, nil
	}
	b, err := tx.Data(memoryKey(r.owner))
	if errors.Is(err, store.ErrNotFound) {
		return time.Time{}, nil
	}
	var x memory
	if err == nil {
		err = cbor.Unmarshal(b, &x)
	}
	boot, up, ok := s.cfg.Uptime()
	if err != nil || !ok || x.Link != r.place.Link {
		return time.Time{}, err
	}
	now := time.Now()
	ago, ok := x.since(now, boot, up)
	if !ok {
		return time.Time{}, nil
	}
	return now.Add(-ago), nil
}

// inStep notes that a copy that was opened on a link goes on there, on the disk too.
// Who has entered the subnet calls it.
func (s *Service) inStep(in *inlink, r *replica) error {
	s.mu.Lock()
	at, done := r.place, r.current
	s.mu.Unlock()
	if done {
		return nil
	}
	if at.Link != in.id && s.cfg.Uptime != nil {
		at.Link = in.id
		if err := s.absorb(r, nil, at); err != nil {
			return err
		}
	}
	s.mu.Lock()
	r.current = true
	s.mu.Unlock()
	return nil
}

// outOfStep notes that a copy is not told any more what changes, although its link
// goes on. Who has entered the subnet calls it.
func (s *Service) outOfStep(r *replica) {
	s.mu.Lock()
	at := r.place
	s.mu.Unlock()
	if at.Link == 0 {
		return
	}
	at.Link = 0
	if err := s.absorb(r, nil, at); err != nil {
		s.log.Error("copy not written", "subnet", r.subnet, "err", err)
	}
}
