package replica

import (
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"net/netip"
	"time"

	"peerd/store"
)

// openRequest returns an open request, with what the record of the subnet has.
func (s *sources) openRequest(j job) (*OpenRequest, error) {
	s.mu.Lock()
	o := OpenRequest{Subnet: j.f.src.prefix, Epoch: j.f.epoch, ID: j.openID}
	s.mu.Unlock()
	head, base, err := s.logOf(o.Subnet)
	if err != nil {
		return nil, err
	}
	o.Log, o.Base = head.Log, base
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Subnet(o.Subnet)
		o.Lease, o.Evidence, o.Estimations = rec.Lease, rec.Evidence, rec.Estimations
		return store.IgnoreNotFound(err)
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	j.f.evidence = known{at: time.Now(), hash: maphash.Bytes(evidenceSeed, o.Evidence)}
	return &o, err
}

// evidenceEvery is how often a replica is sent the evidence at most, so that a subnet that it takes
// over is not estimated from the beginning.
const evidenceEvery = 30 * time.Second

var evidenceSeed = maphash.MakeSeed()

// known is what a replica has of the evidence of a subnet.
type known struct {
	at   time.Time // when the record of the subnet was last read for it
	hash uint64    // of the evidence, with evidenceSeed
}

// addEvidence adds the evidence to some records if has is not what it is now. It returns what the
// replica then has.
func (t *logRecords) addEvidence(tx *store.Tx, has known, now time.Time) (known, error) {
	if now.Sub(has.at) < evidenceEvery {
		return has, nil
	}
	rec, err := tx.Subnet(t.Subnet)
	next := known{at: now, hash: maphash.Bytes(evidenceSeed, rec.Evidence)}
	if next.hash != has.hash {
		t.Evidence, t.Estimations = rec.Evidence, rec.Estimations
	}
	return next, store.IgnoreNotFound(err)
}

// logOf returns the end and the base of a subnet's log, which it starts if there is none.
func (s *sources) logOf(p netip.Prefix) (head, base LogPos, err error) {
	head, base, ok := s.cfg.DB.LogHead(p)
	if ok {
		return head, base, nil
	}
	defer s.locks.lock(p)()
	if head, base, ok = s.cfg.DB.LogHead(p); ok { // started meanwhile
		return head, base, nil
	}
	if err := s.cfg.DB.StartLog(p, rand.Uint64()|1, LogPos{}); err != nil {
		return head, base, fmt.Errorf("replica: %w", err)
	}
	if head, base, ok = s.cfg.DB.LogHead(p); !ok {
		err = fmt.Errorf("replica: %v: %w", p, store.ErrNotInLog)
	}
	return head, base, err
}

// readLog reads the next records for a follower.
func (l *ownerLink) readLog(j job) (*logRecords, error) {
	s := l.s
	p := j.f.src.prefix
	head, _, err := s.logOf(p)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	from, has, ok := j.f.sent, j.f.evidence, l.valid(j, stateLog)
	s.mu.Unlock()
	if !ok {
		return nil, nil
	}
	if head.Log != from.Log {
		return nil, store.ErrNotInLog
	}
	t := &logRecords{Subnet: p, Log: from.Log, First: from.Seq + 1, Urgent: j.urgent}
	more, size := false, 0
	err = s.cfg.DB.View(func(tx *store.Tx) error {
		if has, err = t.addEvidence(tx, has, time.Now()); err != nil {
			return err
		}
		return tx.LogRecords(p, from.Seq, func(_ uint64, raw []byte) (bool, error) {
			if size > 0 && size+len(raw) > pieceBytes || len(t.Records) == maxRecords {
				more = true
				return false, nil
			}
			size += len(raw)
			t.Records = append(t.Records, raw)
			return true, nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("replica: read the log: %w", err)
	}
	to := LogPos{Log: from.Log, Seq: from.Seq + uint64(len(t.Records))}
	if err := s.onDisk(j.f.src, to); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.valid(j, stateLog) {
		return nil, nil
	}
	j.f.sent, j.f.evidence = to, has
	if len(t.Records) > 0 {
		j.f.unacked.add(to.Seq, time.Now())
	}
	if more {
		l.queue(j.f, j.urgent)
	}
	if len(t.Records) == 0 && len(t.Evidence) == 0 && !j.urgent {
		return nil, nil
	}
	return t, nil
}

// onDisk returns when this peer's disk has the log up to a position: no replica must
// be ahead of what its owner finds after a crash of the machine.
func (s *sources) onDisk(src *source, to LogPos) error {
	s.mu.Lock()
	done := src.synced.Log == to.Log && src.synced.Seq >= to.Seq
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.cfg.DB.Sync(); err != nil {
		return fmt.Errorf("replica: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if src.synced.Log != to.Log || src.synced.Seq < to.Seq {
		src.synced = to
	}
	return nil
}

// snapshotCursor is the state of a snapshot that is being sent.
type snapshotCursor struct {
	start LogPos // end of the log when it began; Log is 0 before
	next  []byte // the next piece; nil is the first
}

// readPiece reads the next piece of a snapshot.
func (l *ownerLink) readPiece(j job) (*snapshotPiece, error) {
	s := l.s
	p := j.f.src.prefix
	s.mu.Lock()
	w := j.f.snapshot
	if w == nil || !l.valid(j, stateSnapshot) {
		s.mu.Unlock()
		return nil, nil
	}
	x := &snapshotPiece{Subnet: p, Start: w.start, After: w.next}
	s.mu.Unlock()
	if _, _, err := s.logOf(p); err != nil {
		return nil, err
	}
	var head LogPos
	err := s.cfg.DB.View(func(tx *store.Tx) (err error) {
		var ok bool
		if head, ok, err = tx.LogHead(p); err == nil && !ok {
			err = store.ErrNotInLog
		}
		if x.Start.Log == 0 {
			x.Start = head
		}
		if err == nil && head.Log != x.Start.Log {
			err = store.ErrNotInLog
		}
		if err == nil { // the records after the snapshot must still be there
			err = tx.LogRecords(p, x.Start.Seq, func(uint64, []byte) (bool, error) {
				return false, nil
			})
		}
		if err == nil {
			x.Ops, x.Next, err = tx.Snapshot(p, x.After, pieceBytes)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("replica: snapshot: %w", err)
	}
	if len(x.Next) == 0 {
		x.Until = head.Seq
	}
	if err := s.onDisk(j.f.src, head); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !l.valid(j, stateSnapshot) || j.f.snapshot != w {
		return nil, nil
	}
	w.start, w.next, j.f.sent = x.Start, x.Next, x.Start
	if len(x.Next) > 0 {
		l.snapshots.requeue(j.f)
	} else {
		j.f.update(func() { j.f.snapshot, j.f.state = nil, stateLog })
		l.queue(j.f, true)
	}
	return x, nil
}
