package runner

import (
	"context"
	"os"
	"time"
)

// spread gives every machine the program. Each machine that has it gives it to at most fan_out
// others, if it can reach them by the same command; the others get it from here, at most fan_out
// at once.
func (r *runner) spread(ctx context.Context) error {
	const here = -1
	own := make(chan int, r.f.FanOut)
	offers := make(chan int, r.f.FanOut*len(r.machines))
	for range r.f.FanOut {
		own <- here
	}
	offer := func(m int) {
		for range r.f.FanOut {
			offers <- m
		}
	}
	for m, s := range r.p.Machines { // after a restart
		if s.State == Equipped {
			offer(m)
		}
	}
	fromHere := func(ctx context.Context, m int) error {
		defer func() { own <- here }()
		return r.put(ctx, m)
	}
	err := r.each(ctx, Checked, Equipped, func(ctx context.Context, m int) error {
		if _, err := r.sh(ctx, m, r.f.Timeout.Duration, r.place(m).has()); err == nil {
			offer(m)
			return nil
		}
		var err error
		var from int
		select {
		case from = <-offers:
		default: // no other machine has it and is free
			select {
			case <-ctx.Done():
				return ctx.Err()
			case from = <-own:
			case from = <-offers:
			}
		}
		if from == here {
			err = fromHere(ctx, m)
		} else {
			if err = r.give(ctx, from, m); err != nil && ctx.Err() == nil {
				r.printf("%s could not give the program to %s: %v", r.f.Machines[from].Name,
					r.f.Machines[m].Name, err)
				from = here
				select {
				case <-ctx.Done():
					return ctx.Err()
				case <-own:
					err = fromHere(ctx, m)
				}
			}
		}
		if err != nil {
			return err
		}
		if from != here {
			r.change(func() { r.p.Machines[m].From = r.f.Machines[from].Name })
		}
		offer(m)
		return nil
	})
	if n := r.count(Equipped); n > 0 {
		r.printf("%d machines have the program", n)
	}
	return err
}

// transferTime limits the transfer of n bytes to or from a machine: thrice the time that its
// bandwidth allows for, besides the time limit of a step.
func (r *runner) transferTime(m int, n int64) time.Duration {
	limit := r.f.Timeout.Duration
	if p := r.p.Machines[m].Probe; p.Bandwidth > 0 {
		limit += time.Duration(3 * float64(n) / p.Bandwidth * float64(time.Second))
	}
	return limit
}

// put gives the program to machine m from here.
func (r *runner) put(ctx context.Context, m int) error {
	f, err := os.Open(r.f.Peerd)
	if err != nil {
		return err
	}
	defer f.Close()
	ctx, cancel := context.WithTimeout(ctx, r.transferTime(m, r.size))
	defer cancel()
	return r.machines[m].Run(ctx, r.place(m).put(), f, nil)
}

// give gives it to machine m from another one.
func (r *runner) give(ctx context.Context, from, m int) error {
	ctx, cancel := context.WithTimeout(ctx, r.transferTime(m, r.size))
	defer cancel()
	return r.machines[from].Run(ctx, r.place(from).give(r.f.Machines[m].Command, r.place(m)), nil,
		nil)
}
