package sim

import (
	"context"
	"fmt"
	"slices"
	"time"

	"peerd/internal/clock"
)

const (
	// joinTimeout limits how long the peers take to find each other.
	joinTimeout = 2 * time.Minute
	// endTimeout limits how long the crawl takes after all faults have ended. It is less than
	// owner.Times.Recreate: where no disk is lost, no peer has to wait for that.
	// endTimeoutLoss does so if a disk was lost or a site has moved: a subnet without
	// a replica is taken over when its owner has been unreachable for an hour.
	endTimeout     = 12 * time.Minute
	endTimeoutLoss = 90 * time.Minute
	// exitTimeout is how long a process may take to exit before its connections are
	// dropped.
	exitTimeout = time.Minute
	// leaveTimeout limits how long a peer takes to hand over everything.
	leaveTimeout = time.Minute
	// idleTime is how long all peers must be idle for the crawl to be finished.
	idleTime = 5 * time.Second
	// pollInterval is the time between two samples of the peers' state.
	pollInterval = time.Second
	// restartDelay is the time after which a process that exited by itself is
	// restarted, as a supervisor would do.
	restartDelay = 5 * time.Second
)

// Run runs one simulation and checks the invariants; with a Disturbance it counts nearness
// instead. It must be called in a testing/synctest bubble and leaves no goroutine running there.
func Run(o Options) (Result, error) {
	if o.Disturbance == "" {
		return Play(o, NewSchedule(o))
	}
	o = o.Disturbance.options(o)
	return Play(o, o.Disturbance.schedule(o))
}

// Play is Run with a given schedule.
func Play(o Options, s Schedule) (Result, error) {
	w, err := newWorld(o)
	if err != nil {
		return Result{}, err
	}
	if err := w.web.Listen(); err != nil {
		return Result{}, err
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.web.Run(ctx) }()
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
	if !w.until(joinTimeout, w.joined) {
		return Result{}, fmt.Errorf("sim: peers did not find each other within %v", joinTimeout)
	}
	// If a peer may be lost permanently, two peers get the seed, as do all peers with a
	// profile that has seeds: a URL that one peer alone was given is safe only when the
	// owner has received it.
	for _, m := range w.machines[:1+min(1, int(w.o.Level/Losing))] {
		if _, err := m.node.Seed(context.Background(), []string{w.web.Seed()}); err != nil {
			return Result{}, fmt.Errorf("sim: %w", err)
		}
	}
	w.seeded = time.Now()
	w.note(nil, "seeded crawl")
	for i := range s.Faults {
		w.awaitReceived(&s.Faults[i])
	}
	var acts []action
	for _, f := range s.Faults {
		acts = append(acts, w.acts(f)...)
	}
	for _, at := range s.counts {
		acts = append(acts, action{at, func() { w.counted = append(w.counted, w.nearness()) }})
	}
	slices.SortStableFunc(acts, func(a, b action) int { return int(a.at - b.at) })
	for _, a := range acts {
		for wait := a.at - time.Since(w.seeded); wait > 0; wait = a.at - time.Since(w.seeded) {
			time.Sleep(min(wait, pollInterval))
			w.maintain()
		}
		a.do()
	}
	last := time.Since(w.seeded)
	if len(s.counts) > 0 { // the rest of the crawl does not matter
		return Result{Options: w.o, Schedule: s, Nearness: w.counted, History: w.events,
			Audit: w.web.Audit(), Took: last}, nil
	}
	w.note(nil, "all faults ended")
	limit := endTimeout
	if slices.ContainsFunc(s.Faults, func(f Fault) bool {
		return f.destroysDisk() || f.Kind == Move
	}) {
		limit = endTimeoutLoss
	}
	quiet := w.until(limit, w.crawlOver())
	over := time.Since(w.seeded)
	w.note(nil, "crawl finished: %v", quiet)
	// Concurrent owners have some time to detect each other.
	for time.Since(w.seeded) < last+settleTime {
		time.Sleep(pollInterval)
		w.maintain()
	}
	if !w.settled() { // an owner has just yielded
		quiet = w.until(limit, w.crawlOver())
	}
	return w.judge(s, quiet, last, over), nil
}

// awaitReceived waits for what begins a fault that has Received set.
func (w *world) awaitReceived(f *Fault) {
	for f.Received && time.Since(w.seeded) < f.At {
		for _, peers := range w.held {
			if peers[f.Peers[0]].Epoch > 1 {
				f.At = time.Since(w.seeded)
			}
		}
		if time.Since(w.seeded) < f.At {
			time.Sleep(pollInterval)
			w.maintain()
		}
	}
}

// until polls until holds returns true and reports whether that happened within limit.
func (w *world) until(limit time.Duration, holds func() bool) bool {
	for begin := time.Now(); time.Since(begin) < limit; {
		if holds() {
			return true
		}
		time.Sleep(pollInterval)
		w.maintain()
	}
	return false
}

// maintain samples the peers' state and restarts peers that have exited by themselves.
func (w *world) maintain() {
	w.sample()
	for _, m := range w.machines {
		if m.node != nil && m.ended() {
			m.node, m.startAt = nil, clock.Later(time.Now().Add(restartDelay), m.awayUntil)
		}
		if !m.startAt.IsZero() && !time.Now().Before(m.startAt) {
			w.start(m)
		}
	}
}

// start starts a peer that is not running and schedules a retry if that fails.
func (w *world) start(m *machine) {
	m.startAt = time.Time{}
	if m.running() || m.lost {
		return
	}
	if m.start() != nil {
		m.startAt = time.Now().Add(restartDelay)
	}
}

// joined reports whether every peer knows all others.
func (w *world) joined() bool {
	for _, m := range w.machines {
		if !m.running() || m.node.Status().Directory < w.o.Peers-1 {
			return false
		}
	}
	return true
}

// crawlOver returns a function that reports whether the crawl is finished: all peers
// have been idle for idleTime, each subnet has a running owner, and all pages are
// fetched. Idle peers alone do not suffice: a peer that waits for a dead owner is idle.
func (w *world) crawlOver() func() bool {
	looks, noted := 0, time.Now()
	return func() bool {
		looks++
		if a := w.web.Audit(); a.PagesFetched < a.PagesExpected || !w.settled() {
			looks = 0
		}
		for _, m := range w.machines {
			if m.lost || m.running() && m.node.Idle() {
				continue
			}
			if looks = 0; m.running() && time.Since(noted) >= 2*time.Minute {
				s := m.node.Status()
				w.note(m, "has work: %+v, outbox %d, blocked %v", s.Frontier, s.OutboxURLs,
					s.Blocked)
				defer func() { noted = time.Now() }()
			}
		}
		return looks > int(idleTime/pollInterval)
	}
}

// settled reports whether each subnet that ever had an owner has exactly one that runs.
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

// end stops all processes and waits for them.
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
		case <-time.After(exitTimeout):
		}
		// The handshake without encryption has no timeout: if the other machine was lost
		// during it, it never returns.
		w.drop(m)
		<-m.done
	}
}
