package replica

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"time"
)

// onReply handles a frame of a replica.
func (l *ownerLink) onReply(u replicaFrame) error {
	if len(u.Replies) > maxAcks || len(u.Acks) > maxAcks {
		return errors.New("replica: too many replies or acks in one frame")
	}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	if err := l.flight.reply(u.Taken, time.Now()); err != nil {
		return err
	}
	maps.DeleteFunc(l.closings, func(_ netip.Prefix, x pendingClose) bool {
		return x.frame > 0 && x.frame <= l.flight.taken
	})
	for _, h := range u.Replies {
		if f := l.followers[h.Subnet]; f != nil && f.openID == h.ID && f.openID > 0 {
			l.onOpenReply(f, h)
		}
	}
	for _, a := range u.Acks {
		if f := l.followers[a.Subnet]; f != nil {
			f.onAck(a)
		}
	}
	l.wakeup.Signal()
	return nil
}

// onAck handles an acknowledgement.
func (f *follower) onAck(a ack) {
	if f.state != stateLog && f.state != stateSnapshot || a.Pos.Log != f.sent.Log ||
		a.Pos.Seq > f.sent.Seq {
		return
	}
	f.update(func() {
		f.acked, f.complete = a.Pos, a.Complete && f.state == stateLog
		f.unacked.drop(a.Pos.Seq)
		if f.complete {
			f.reopens = 0
		}
	})
}

// onOpenReply handles the reply to an open request, or the end of what it began.
func (l *ownerLink) onOpenReply(f *follower, h openReply) {
	reason := clip(h.Reason)
	switch h.Status {
	case statusOK:
		if f.state == stateOpening {
			l.start(f, h)
		}
	case statusRefused:
		l.delay(f, fmt.Errorf("%w: %q", ErrRefused, reason), l.s.cfg.Retry)
	case statusStale:
		l.delay(f, fmt.Errorf("%w: %q", ErrStale, reason), l.s.cfg.Retry)
	case statusReopen:
		l.reopenOrDelay(f, fmt.Errorf("replica: the copy has a gap: %q", reason))
	default:
		l.delay(f, fmt.Errorf("%w: %q", ErrLater, reason), 2*l.s.cfg.Redial)
	}
}

// start continues from what the replica has.
func (l *ownerLink) start(f *follower, h openReply) {
	switch {
	case len(h.Cursor) > maxCursor:
		l.delay(f, errors.New("replica: the cursor is out of range"), l.s.cfg.Retry)
	case h.Pos.Log == 0 || len(h.Cursor) > 0:
		l.startSnapshot(f, h.Pos, h.Cursor)
	default:
		if h.Pos.Log != f.sent.Log {
			f.unacked = nil
		}
		f.unacked.drop(h.Pos.Seq)
		f.update(func() { f.acked, f.sent, f.complete, f.state = h.Pos, h.Pos, false, stateLog })
		l.queue(f, true) // even without new records: the ack says whether the copy is complete
	}
}

// startSnapshot begins a snapshot, or continues one.
func (l *ownerLink) startSnapshot(f *follower, start LogPos, at []byte) {
	f.update(func() {
		f.acked, f.sent, f.complete, f.state = start, start, false, stateSnapshot
		f.snapshot, f.unacked = &snapshotCursor{start: start, next: at}, nil
	})
	l.snapshots.push(f)
	l.wakeup.Signal()
}
