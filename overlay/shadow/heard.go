package shadow

import (
	"errors"
	"fmt"
	"time"
)

// answered takes in what a replica says.
func (l *link) answered(u up) error {
	if len(u.Haves) > maxAcks || len(u.Acks) > maxAcks {
		return errors.New("shadow: too much in one answer")
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	before := l.took
	for l.took < u.Took {
		if len(l.flight) == 0 {
			return errors.New("shadow: the replica took more than was sent")
		}
		l.took++
		l.size -= l.flight[0]
		l.flight = l.flight[1:]
	}
	l.beats(l.took-before, time.Now())
	for _, h := range u.Haves {
		if f := l.followers[h.Subnet]; f != nil && f.turn == h.Turn && f.turn > 0 {
			l.has(f, h)
		}
	}
	for _, a := range u.Acks {
		if f := l.followers[a.Subnet]; f != nil {
			f.acks(a)
		}
	}
	poke(l.kick)
	return nil
}

// acks takes in how far a replica is.
func (f *follower) acks(a ack) {
	if f.state != stateTail && f.state != stateWalk || a.Pos.Log != f.sent.Log || a.Pos.Seq > f.sent.Seq {
		return
	}
	f.alter(func() {
		f.acked, f.whole = a.Pos, a.Whole && f.state == stateTail
		f.marks.drop(a.Pos.Seq)
		if f.whole {
			f.again = 0
		}
	})
}

// has takes in the answer to an Open, or the end of what it began.
func (l *link) has(f *follower, h have) {
	why := clip(h.Why)
	switch h.Verdict {
	case verdictOK:
		if f.state == stateOpening {
			l.opened(f, h)
		}
	case verdictRefused:
		l.rest(f, fmt.Errorf("%w: %q", ErrRefused, why), l.s.cfg.Retry)
	case verdictStale:
		l.rest(f, fmt.Errorf("%w: %q", ErrStale, why), l.s.cfg.Retry)
	case verdictAgain:
		l.refresh(f, fmt.Errorf("shadow: the replica misses something: %q", why))
	default:
		l.rest(f, fmt.Errorf("%w: %q", ErrLater, why), 2*l.s.cfg.Redial)
	}
}

// opened begins with what the replica has.
func (l *link) opened(f *follower, h have) {
	switch {
	case len(h.Cursor) > maxCursor:
		l.rest(f, errors.New("shadow: the replica's cursor is out of range"), l.s.cfg.Retry)
	case h.Pos.Log == 0 || len(h.Cursor) > 0:
		l.begin(f, h.Pos, h.Cursor)
	default:
		if h.Pos.Log != f.sent.Log {
			f.marks = nil
		}
		f.marks.drop(h.Pos.Seq)
		f.alter(func() { f.acked, f.sent, f.whole, f.state = h.Pos, h.Pos, false, stateTail })
		l.queue(f, true) // even with nothing to say: the answer says whether it is whole
	}
}

// begin begins a snapshot, or goes on with one.
func (l *link) begin(f *follower, start TailPos, at []byte) {
	f.alter(func() {
		f.acked, f.sent, f.whole, f.state = start, start, false, stateWalk
		f.walk, f.marks = &walk{start: start, at: at}, nil
	})
	l.walks.push(f)
	poke(l.kick)
}
