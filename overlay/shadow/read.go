package shadow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/store"
)

// opening makes an Open complete.
func (s *Service) opening(j job) (*Open, error) {
	s.mu.Lock()
	o := j.f.open
	s.mu.Unlock()
	head, base, err := s.logOf(o.Subnet)
	if err != nil {
		return nil, err
	}
	o.Turn, o.Log, o.Base, o.Panel = j.turn, head.Log, base, nil
	if o.Lease != nil && o.Evidence != nil {
		return &o, nil
	}
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Subnet(o.Subnet)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if o.Lease == nil {
			o.Lease = rec.Lease
		}
		if o.Evidence == nil {
			o.Evidence, o.Estimations = rec.Evidence, rec.Estimations
		}
		return err
	})
	return &o, err
}

// logOf returns where the log of a subnet is, begun anew if it was broken.
func (s *Service) logOf(p netip.Prefix) (head, base TailPos, err error) {
	head, base, ok := s.cfg.DB.TailHead(p)
	if ok {
		return head, base, nil
	}
	defer s.enter(p)()
	if head, base, ok = s.cfg.DB.TailHead(p); ok { // somebody else was here
		return head, base, nil
	}
	if err := s.cfg.DB.StartTail(p, rand.Uint64()|1, TailPos{}); err != nil {
		return head, base, fmt.Errorf("shadow: %w", err)
	}
	if head, base, ok = s.cfg.DB.TailHead(p); !ok {
		err = fmt.Errorf("shadow: %v: %w", p, store.ErrTailGone)
	}
	return head, base, err
}

// tail reads the next records for a follower.
func (l *link) tail(j job) (*tail, error) {
	s := l.s
	p := j.f.src.prefix
	head, _, err := s.logOf(p)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	from, ok := j.f.sent, l.valid(j, stateTail)
	s.mu.Unlock()
	if !ok {
		return nil, nil
	}
	if head.Log != from.Log {
		return nil, store.ErrTailGone
	}
	t := &tail{Subnet: p, Log: from.Log, First: from.Seq + 1, Now: j.now}
	more, size := false, 0
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Tail(p, from.Seq, func(_ uint64, raw []byte) (bool, error) {
			if size > 0 && size+len(raw) > partBytes || len(t.Records) == maxRecords {
				more = true
				return false, nil
			}
			size += len(raw)
			t.Records = append(t.Records, raw)
			return true, nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: read the log: %w", err)
	}
	to := TailPos{Log: from.Log, Seq: from.Seq + uint64(len(t.Records))}
	if err := s.onDisk(j.f.src, to); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.valid(j, stateTail) {
		return nil, nil
	}
	j.f.sent = to
	if len(t.Records) > 0 {
		j.f.marks.add(to.Seq, time.Now())
	}
	if more {
		l.queue(j.f, j.now)
	}
	if len(t.Records) == 0 && !j.now {
		return nil, nil
	}
	return t, nil
}

// onDisk returns when our own disk has a log up to a position: no replica must
// be ahead of what its owner finds after a crash of the machine.
func (s *Service) onDisk(src *source, to TailPos) error {
	s.mu.Lock()
	done := src.synced.Log == to.Log && src.synced.Seq >= to.Seq
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.sync.Sync(); err != nil {
		return fmt.Errorf("shadow: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if src.synced.Log != to.Log || src.synced.Seq < to.Seq {
		src.synced = to
	}
	return nil
}

// walk is a snapshot on its way.
type walk struct {
	start TailPos // the log when it was begun; Log is 0 before
	at    []byte  // the next piece; nil is the first
}

// piece reads the next piece of a snapshot.
func (l *link) piece(j job) (*snap, error) {
	s := l.s
	p := j.f.src.prefix
	s.mu.Lock()
	w := j.f.walk
	if w == nil || !l.valid(j, stateWalk) {
		s.mu.Unlock()
		return nil, nil
	}
	x := &snap{Subnet: p, Start: w.start, After: w.at}
	s.mu.Unlock()
	if _, _, err := s.logOf(p); err != nil {
		return nil, err
	}
	var head TailPos
	err := s.cfg.DB.View(func(tx *store.Tx) (err error) {
		var ok bool
		if head, ok, err = tx.TailHead(p); err == nil && !ok {
			err = store.ErrTailGone
		}
		if x.Start.Log == 0 {
			x.Start = head
		}
		if err == nil && head.Log != x.Start.Log {
			err = store.ErrTailGone
		}
		if err == nil { // what comes after the snapshot must still be there
			err = tx.Tail(p, x.Start.Seq, func(uint64, []byte) (bool, error) { return false, nil })
		}
		if err == nil {
			x.Ops, x.Next, err = tx.Snapshot(p, x.After, partBytes)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("shadow: snapshot: %w", err)
	}
	if len(x.Next) == 0 {
		x.Until = head.Seq
	}
	if err := s.onDisk(j.f.src, head); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.valid(j, stateWalk) || j.f.walk != w {
		return nil, nil
	}
	w.start, w.at, j.f.sent = x.Start, x.Next, x.Start
	if len(x.Next) > 0 {
		l.walks.back(j.f)
	} else {
		j.f.alter(func() { j.f.walk, j.f.state = nil, stateTail })
		l.queue(j.f, true)
	}
	return x, nil
}
