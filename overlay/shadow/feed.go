package shadow

import (
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// what the sender of a link does next.
type task uint8

const (
	jobNone task = iota
	jobClose
	jobPanel
	jobOpen
	jobWalk
	jobTail
)

// A job is one frame to be made and sent.
type job struct {
	what task
	f    *follower
	turn uint64 // of f, when the job was given: with another one it is void
	now  bool   // somebody waits

	subnet netip.Prefix // of a jobClose
	drop   bool
}

// next picks what is sent next: what somebody waits for, then in turn what is
// new and a piece of a snapshot, as far as the window is open.
func (l *link) next() job {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.repanel {
		l.repanel = false
		return job{what: jobPanel}
	}
	if l.size >= window {
		return job{}
	}
	for p, x := range l.closings {
		delete(l.closings, p)
		return job{what: jobClose, subnet: p, drop: x.drop}
	}
	walk := len(l.walks.q) > 0 && l.size < window/4
	if walk && (l.walkTo || len(l.work.q)+len(l.hot.q) == 0) {
		l.walkTo = false
		if f := l.walks.pop(); f.walk != nil && l.current(f) {
			return job{what: jobWalk, f: f, turn: f.turn}
		}
	}
	for f := l.pop(); f != nil; f = l.pop() {
		if !f.queued || !l.current(f) {
			continue // it was here twice, or follows no more
		}
		now := f.urgent
		f.queued, f.urgent = false, false
		l.walkTo = true
		switch f.state {
		case stateIdle:
			l.turn++
			f.turn = l.turn
			f.alter(func() { f.state, f.err = stateOpening, nil })
			return job{what: jobOpen, f: f, turn: f.turn}
		case stateTail:
			return job{what: jobTail, f: f, turn: f.turn, now: now}
		}
	}
	if walk {
		poke(l.kick) // nothing else to do: look again
	}
	return job{}
}

func (l *link) pop() *follower {
	if f := l.hot.pop(); f != nil {
		return f
	}
	return l.work.pop()
}

func (l *link) current(f *follower) bool { return l.followers[f.src.prefix] == f }

// valid says whether a job is still to be done. The caller holds mu.
func (l *link) valid(j job, s state) bool {
	return l.current(j.f) && j.f.turn == j.turn && j.f.state == s
}

// do makes and sends one frame.
func (l *link) do(c *wire.Conn, j job) error {
	var d down
	var err error
	switch j.what {
	case jobClose:
		d.Close = &closing{Subnet: j.subnet, Drop: j.drop}
	case jobOpen:
		if err := l.tellPanel(c); err != nil {
			return err
		}
		d.Open, err = l.s.opening(j)
	case jobPanel:
		return l.tellPanel(c)
	case jobTail:
		d.Tail, err = l.tail(j)
	case jobWalk:
		d.Snap, err = l.piece(j)
	}
	if err != nil {
		l.fault(j, err)
		return nil
	}
	if d.beat() {
		return nil
	}
	l.sent(d.cost())
	return l.tell(c, d)
}

// tell sends a frame.
func (l *link) tell(c *wire.Conn, d down) error {
	l.s.mu.Lock()
	d.Heard = l.echo
	l.s.mu.Unlock()
	return c.SendZ(d)
}

// tellPanel sends our panel if it is not the one that was told.
func (l *link) tellPanel(c *wire.Conn) error {
	l.s.mu.Lock()
	panel := l.s.panel
	l.s.mu.Unlock()
	if len(panel) == 0 || string(panel) == l.panel {
		return nil
	}
	l.panel = string(panel)
	return l.tell(c, down{Panel: panel})
}

// cost is about how much a frame weighs in the window: what it takes to take
// it in, of which its length, being compressed, says little.
func (d down) cost() int {
	n := 256
	switch {
	case d.Open != nil:
		n += len(d.Open.Lease) + len(d.Open.Evidence)
	case d.Snap != nil:
		n += max(len(d.Snap.Ops), partBytes)
	case d.Tail != nil:
		for _, r := range d.Tail.Records {
			n += 4 * len(r)
		}
	}
	return n
}

func (l *link) sent(size int) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if len(l.flight) == 0 {
		l.moved = time.Now()
	}
	l.flight = append(l.flight, size)
	l.size += size
}

// fault is what becomes of a follower when our own store, or the log, fails it.
func (l *link) fault(j job, err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	f := j.f
	if f == nil || !l.current(f) || f.turn != j.turn {
		return
	}
	if errors.Is(err, store.ErrTailGone) && j.what != jobOpen && f.again < maxAgain {
		f.again++
		l.begin(f, TailPos{}, nil)
		return
	}
	l.refresh(f, err)
}

// refresh opens a follower again, at once if that is not for the nth time in a
// row.
func (l *link) refresh(f *follower, err error) {
	f.again++
	if f.again <= maxAgain {
		l.reopen(f)
		return
	}
	l.s.log.Warn("shadow not kept; trying again later", "subnet", f.src.prefix, "replica", l.peer, "err", err)
	l.rest(f, err, 5*l.s.cfg.Redial)
}

// rest leaves a follower alone for a while.
func (l *link) rest(f *follower, err error, wait time.Duration) {
	f.alter(func() {
		f.walk, f.state, f.err, f.retry = nil, stateWaiting, err, time.Now().Add(wait)
	})
}
