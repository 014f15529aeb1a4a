package sim

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	// joinWithin is how long the peers have to find each other.
	joinWithin = 2 * time.Minute
	// endWithin is how long the crawl may take after all faults have ended, and
	// endLosing how long if a disk was lost, or a site has moved: what had no shadow
	// yet is taken over when nobody has heard of its owner for an hour.
	endWithin = 20 * time.Minute
	endLosing = 90 * time.Minute
	// endsWithin is how long a process may take to end before its connections do.
	endsWithin = time.Minute
	// leaveWithin is how long a peer may take to hand everything over.
	leaveWithin = time.Minute
	// still is how long nobody may have had any work for the crawl to be over.
	still = 5 * time.Second
	// look is the time between two looks at the peers.
	look = time.Second
	// again is when a process that ended by itself is started again, as a
	// supervisor would.
	again = 5 * time.Second
)

// Run plays one simulation and judges it. It must be called in a bubble of
// testing/synctest, and leaves nothing running there.
func Run(o Options) (Result, error) {
	w, err := newWorld(o)
	if err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.web.Run(ctx) }()
	s := NewSchedule(o)
	r, err := w.play(s)
	w.end()
	stop()
	if err := <-served; err != nil {
		return r, err
	}
	return r, err
}

func (w *world) play(s Schedule) (Result, error) {
	for i, m := range w.machines {
		m.skew = s.Skews[i]
		if err := m.start(); err != nil {
			return Result{}, fmt.Errorf("sim: %s: %w", m.name, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if !w.until(joinWithin, w.joined) {
		return Result{}, fmt.Errorf("sim: the peers did not find each other within %v", joinWithin)
	}
	// Where a peer may be lost for good two know the seed, as all do whose
	// profile has it: what one peer alone was told is safe when its owner has it.
	for _, m := range w.machines[:1+min(1, int(w.o.Level/Losing))] {
		if _, err := m.node.Seed(context.Background(), []string{w.web.Seed()}); err != nil {
			return Result{}, fmt.Errorf("sim: %w", err)
		}
	}
	w.seeded = time.Now()
	w.note(nil, "the crawl is seeded")
	var acts []act
	for _, f := range s.Faults {
		acts = append(acts, w.acts(f)...)
	}
	slices.SortStableFunc(acts, func(a, b act) int { return int(a.at - b.at) })
	for _, a := range acts {
		for wait := a.at - time.Since(w.seeded); wait > 0; wait = a.at - time.Since(w.seeded) {
			time.Sleep(min(wait, look))
			w.tend()
		}
		a.do()
	}
	last := time.Since(w.seeded)
	w.note(nil, "all faults are over")
	limit := endWithin
	if slices.ContainsFunc(s.Faults, func(f Fault) bool { return f.empties() || f.Kind == Move }) {
		limit = endLosing
	}
	quiet := w.until(limit, w.quiet())
	over := time.Since(w.seeded)
	w.note(nil, "the crawl is over: %v", quiet)
	// Whoever takes himself for the owner has some time to find out.
	for time.Since(w.seeded) < last+settle {
		time.Sleep(look)
		w.tend()
	}
	if !w.settled() { // one has found out just now
		quiet = w.until(limit, w.quiet())
	}
	return w.judge(s, quiet, last, over), nil
}

// until looks until something holds, and says whether it came to that.
func (w *world) until(limit time.Duration, holds func() bool) bool {
	for begin := time.Now(); time.Since(begin) < limit; {
		if holds() {
			return true
		}
		time.Sleep(look)
		w.tend()
	}
	return false
}

// tend does what goes on all the time: it looks at the peers, and starts those
// that have ended by themselves.
func (w *world) tend() {
	w.sample()
	for _, m := range w.machines {
		if m.node != nil && m.ended() {
			m.node, m.due = nil, later(time.Now().Add(again), m.away)
		}
		if !m.due.IsZero() && !time.Now().Before(m.due) {
			w.start(m)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// start starts a peer that is off, and tries again later if it does not start.
func (w *world) start(m *machine) {
	m.due = time.Time{}
	if m.running() || m.lost {
		return
	}
	if m.start() != nil {
		m.due = time.Now().Add(again)
	}
}

// joined says whether every peer knows all others.
func (w *world) joined() bool {
	for _, m := range w.machines {
		if !m.running() || m.node.Status().Directory < w.o.Peers-1 {
			return false
		}
	}
	return true
}

// quiet says whether the crawl is over: nobody has had any work for a while, each
// subnet has an owner that runs, and no page is left. Who waits for a dead owner has no work; so
// what is left then is waited for as long as there is time.
func (w *world) quiet() func() bool {
	looks, told := 0, time.Now()
	return func() bool {
		looks++
		if a := w.web.Audit(); a.PagesFetched < a.PagesExpected || !w.settled() {
			looks = 0
		}
		for _, m := range w.machines {
			if m.lost || m.running() && m.node.Idle() {
				continue
			}
			if looks = 0; m.running() && time.Since(told) >= 2*time.Minute {
				s := m.node.Status()
				w.note(m, "has work: %+v, outbox %d, blocked %v", s.Frontier, s.OutboxURLs, s.Blocked)
				defer func() { told = time.Now() }()
			}
		}
		return looks > int(still/look)
	}
}

// settled says whether each subnet that anybody ever held is held by one peer that
// runs.
func (w *world) settled() bool {
	for _, peers := range w.held {
		n := 0
		for _, m := range w.machines {
			if _, holds := peers[m.n]; holds && m.running() {
				n++
			}
		}
		if n != 1 {
			return false
		}
	}
	return true
}

// end ends all processes and waits for them.
func (w *world) end() {
	for _, m := range w.machines {
		if m.running() {
			m.stop()
		}
	}
	for _, m := range w.machines {
		select {
		case <-m.done:
			continue
		case <-time.After(endsWithin):
		}
		// The handshake without encryption has no limit: with a machine that was lost in
		// the middle of one it lasts for ever.
		w.drop(m)
		<-m.done
	}
}
