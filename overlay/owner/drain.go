package owner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/coords/assign"
	"peerd/overlay/ownership"
)

// drainsAtOnce is how many subnets leave at a time while this peer drains: their
// pages rest meanwhile.
const drainsAtOnce = 16

// ErrLeft is returned by Drain when not all subnets could be handed over.
var ErrLeft = errors.New("owner: subnets remain")

// Drain hands all subnets over: those of which a replica has a copy to it, others to the
// nearest peer that accepts them. From its call until the process ends this peer accepts
// nothing. Run must be running. It returns when no subnet is left, or at the end of ctx
// with an error that wraps ErrLeft.
func (d *departures) Drain(ctx context.Context) error {
	d.draining.Store(true)
	t := time.NewTicker(d.cfg.Tick)
	defer t.Stop()
	for {
		left := d.drain(time.Now())
		if left == 0 {
			return nil
		}
		d.wake()
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %d of them", ErrLeft, left)
		case <-t.C:
		}
	}
}

// drain sends subnets off, some at a time, and returns how many are left.
func (d *departures) drain(now time.Time) (left int) {
	all := d.candidates()
	d.mu.Lock()
	defer d.mu.Unlock()
	under := 0
	for _, s := range d.subnets {
		if !s.unit.Stays() {
			under++
		}
	}
	for _, s := range d.subnets {
		if under >= drainsAtOnce {
			break
		}
		if !s.unit.Usable() {
			continue
		}
		to := d.successor(s, all, now)
		if to == "" {
			continue
		}
		d.step(s, ownership.Event{Kind: ownership.Moved, To: to})
		under++
		d.log.Info("started handover: this peer leaves", "subnet", s.prefix, "to", to)
	}
	return len(d.subnets)
}

// successor returns the peer to which a subnet goes when this peer leaves; "" if there
// is none now. The table's mutex is held.
func (d *departures) successor(s *subnet, all []assign.Candidate, now time.Time) string {
	q, _ := d.question(s, all, now)
	for _, id := range q.prefer {
		if !q.not[id] {
			return id
		}
	}
	if ids := q.choose(all, 1); len(ids) > 0 {
		return ids[0].String()
	}
	clear(s.exclude) // perhaps they take it now
	return ""
}
