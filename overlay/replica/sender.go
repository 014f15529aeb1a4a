package replica

import (
	"errors"
	"net/netip"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// jobKind is what the sender of a link does next.
type jobKind uint8

const (
	jobNone jobKind = iota
	jobClose
	jobWitnessSet
	jobOpen
	jobSnapshot
	jobLog
)

// A job is one frame to be made and sent.
type job struct {
	kind   jobKind
	f      *follower
	openID uint64 // of f when the job was created; the job is void if it has changed
	urgent bool   // a caller waits

	subnet netip.Prefix // of a jobClose
	drop   bool
}

// next returns the next job: first what callers wait for, then in turn new records and
// pieces of snapshots, as far as the window is open.
func (l *ownerLink) next() job {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if l.newWitnessSet {
		l.newWitnessSet = false
		return job{kind: jobWitnessSet}
	}
	if l.flight.size >= window {
		return job{}
	}
	for p, x := range l.closings {
		if x.frame > 0 {
			continue
		}
		x.frame = l.flight.next()
		l.closings[p] = x
		return job{kind: jobClose, subnet: p, drop: x.drop}
	}
	snapshot := len(l.snapshots.q) > 0 && l.flight.size < window/4
	if snapshot && (l.snapshotNext || len(l.work.q)+len(l.urgent.q) == 0) {
		l.snapshotNext = false
		if f := l.snapshots.pop(); f.snapshot != nil && l.current(f) {
			return job{kind: jobSnapshot, f: f, openID: f.openID}
		}
	}
	for f := l.pop(); f != nil; f = l.pop() {
		if !f.queued || !l.current(f) {
			continue // it was queued twice, or does not follow any more
		}
		now := f.urgent
		f.queued, f.urgent = false, false
		l.snapshotNext = true
		switch f.state {
		case stateIdle:
			l.lastOpenID++
			f.openID = l.lastOpenID
			f.update(func() { f.state, f.err = stateOpening, nil })
			return job{kind: jobOpen, f: f, openID: f.openID}
		case stateLog:
			return job{kind: jobLog, f: f, openID: f.openID, urgent: now}
		}
	}
	if snapshot {
		l.wakeup.Signal() // there is nothing else to send: look again
	}
	return job{}
}

func (l *ownerLink) pop() *follower {
	if f := l.urgent.pop(); f != nil {
		return f
	}
	return l.work.pop()
}

func (l *ownerLink) current(f *follower) bool { return l.followers[f.src.prefix] == f }

// valid reports whether a job is still to be done. The caller holds mu.
func (l *ownerLink) valid(j job, s followState) bool {
	return l.current(j.f) && j.f.openID == j.openID && j.f.state == s
}

// sendJob makes and sends one frame.
func (l *ownerLink) sendJob(c *wire.Conn, j job) error {
	var d ownerFrame
	var err error
	switch j.kind {
	case jobClose:
		d.Close = &closeRequest{Subnet: j.subnet, Drop: j.drop}
	case jobOpen:
		if err := l.sendWitnessSet(c); err != nil {
			return err
		}
		d.Open, err = l.s.openRequest(j)
	case jobWitnessSet:
		return l.sendWitnessSet(c)
	case jobLog:
		d.Records, err = l.readLog(j)
	case jobSnapshot:
		d.Piece, err = l.readPiece(j)
	}
	if err != nil {
		l.fail(j, err)
		return nil
	}
	if d.isHeartbeat() {
		return nil
	}
	l.s.mu.Lock()
	l.flight.add(d.weight(), time.Now())
	l.s.mu.Unlock()
	return l.sendFrame(c, d)
}

// sendFrame sends a frame.
func (l *ownerLink) sendFrame(c *wire.Conn, d ownerFrame) error {
	l.s.mu.Lock()
	d.Heard = l.flight.echo
	l.s.mu.Unlock()
	return c.SendZ(d)
}

// sendWitnessSet sends this peer's witness set, unless it was the last one sent.
func (l *ownerLink) sendWitnessSet(c *wire.Conn) error {
	l.s.mu.Lock()
	set := l.s.witnessSet
	l.s.mu.Unlock()
	if len(set) == 0 || string(set) == l.sentWitnessSet {
		return nil
	}
	l.sentWitnessSet = string(set)
	return l.sendFrame(c, ownerFrame{WitnessSet: set})
}

// weight is the size of a frame in the window. It estimates the work of applying the
// frame, of which the compressed length says little.
func (d ownerFrame) weight() int {
	n := 256
	switch {
	case d.Open != nil:
		n += len(d.Open.Lease) + len(d.Open.Evidence)
	case d.Piece != nil:
		n += max(len(d.Piece.Ops), pieceBytes)
	case d.Records != nil:
		n += len(d.Records.Evidence)
		for _, r := range d.Records.Records {
			n += 4 * len(r)
		}
	}
	return n
}

// fail handles an error of this peer's store or log for a follower.
func (l *ownerLink) fail(j job, err error) {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	f := j.f
	if f == nil || !l.current(f) || f.openID != j.openID {
		return
	}
	if errors.Is(err, store.ErrNotInLog) && j.kind != jobOpen && f.reopens < maxReopens {
		f.reopens++
		l.startSnapshot(f, LogPos{}, nil)
		return
	}
	l.reopenOrDelay(f, err)
}

// reopenOrDelay opens a follower again: at once, or after maxReopens consecutive times
// after a delay.
func (l *ownerLink) reopenOrDelay(f *follower, err error) {
	f.reopens++
	if f.reopens <= maxReopens {
		l.reopen(f)
		return
	}
	l.s.cfg.Logger.Warn("failed to keep replica; will retry", "subnet", f.src.prefix,
		"replica", l.peer, "err", err)
	l.delay(f, err, 5*l.s.cfg.Redial)
}

// delay leaves a follower alone for a time.
func (l *ownerLink) delay(f *follower, err error, wait time.Duration) {
	f.update(func() {
		f.snapshot, f.state, f.err, f.retryAt = nil, stateWaiting, err, time.Now().Add(wait)
	})
}
