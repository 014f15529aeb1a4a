package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sync"

	"peerd/store/kv"
)

// ErrNotInLog is returned if the changes of a subnet are not logged, or if its change log
// does not contain the requested records.
var ErrNotInLog = errors.New("store: not in the change log")

// defaultMaxChangeLog is the default of Options.MaxChangeLog.
const defaultMaxChangeLog = 64 << 20

// LogPos is a position in the change log of a subnet: behind the record with sequence
// number Seq, or at the start if Seq is 0.
type LogPos struct {
	_   struct{} `cbor:",toarray"`
	Log uint64   // identity of the log
	Seq uint64
}

// logState is the stored state of one change log.
type logState struct {
	_       struct{} `cbor:",toarray"`
	Head    LogPos
	Base    LogPos
	Through uint64 // records up to this one are trimmed
	Bytes   int64  // size of the remaining records
	Broken  bool   // too large, or a change is missing: nothing is logged any more
}

// changeLogs holds the states of all change logs as of the last commit.
type changeLogs struct {
	mu      sync.RWMutex
	all     map[netip.Prefix]logState
	active  int // logs that are not broken
	changed chan struct{}
	max     int64
}

func (c *changeLogs) get(p netip.Prefix) (logState, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	s, ok := c.all[p]
	return s, ok
}

func (c *changeLogs) logged(p netip.Prefix) bool {
	s, ok := c.get(p)
	return ok && !s.Broken
}

// put stores the committed states; a nil state means that the log was deleted.
func (c *changeLogs) put(states map[netip.Prefix]*logState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p, s := range states {
		if old, ok := c.all[p]; ok && !old.Broken {
			c.active--
		}
		if s == nil {
			delete(c.all, p)
			continue
		}
		c.all[p] = *s
		if !s.Broken {
			c.active++
		}
	}
}

func (c *changeLogs) anyActive() bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.active > 0
}

func (c *changeLogs) signal() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// loadLogs reads the states of the change logs.
func (d *DB) loadLogs() error {
	states := map[netip.Prefix]*logState{}
	err := d.View(func(tx *Tx) error {
		return eachValue(tx, []byte{spaceLogState}, nil,
			func(key []byte, s logState) (bool, error) {
				p, err := netip.ParsePrefix(string(key[1:]))
				if err != nil {
					return false, fmt.Errorf("%w: key %q: %w", ErrCorrupt, key, err)
				}
				states[p] = &s
				return true, nil
			})
	})
	d.logs.put(states)
	return err
}

// StartLog starts to log the changes of the hosts of p. The identity log must be new:
// a peer that becomes the owner of p draws it at random. base is the position that the
// log continues: a replica at base needs no snapshot; zero means none. The first
// transaction after StartLog becomes the first record. If p has a log with the same
// identity, it continues; if it has another or a broken one, that is deleted. StartLog
// must not be called concurrently for one subnet.
func (d *DB) StartLog(p netip.Prefix, log uint64, base LogPos) error {
	s, ok := d.logs.get(p)
	if ok && !s.Broken && s.Head.Log == log {
		return nil
	}
	if ok && s.Head.Log == log {
		return fmt.Errorf("%w: log %x of %v is broken: start one with another identity",
			ErrNotInLog, log, p)
	}
	if err := d.deleteLog(p); err != nil {
		return err
	}
	return d.putLogState(p, &logState{Head: LogPos{Log: log}, Base: base})
}

// StopLog deletes the change log of p. It must not be called concurrently for one subnet.
func (d *DB) StopLog(p netip.Prefix) error {
	if err := d.deleteLog(p); err != nil {
		return err
	}
	return d.updateWhile(func(tx *Tx) (bool, error) {
		return tx.releaseCrossLinks(p, LogPos{Seq: math.MaxUint64})
	})
}

// deleteLog deletes the state and the records of the change log of p.
func (d *DB) deleteLog(p netip.Prefix) error {
	if _, ok := d.logs.get(p); ok {
		if err := d.putLogState(p, nil); err != nil {
			return err
		}
	}
	return d.deleteAll(hostPrefix(spaceLog, p.String()), always)
}

// putLogState writes the state of a change log, or deletes it if s is nil, in a
// transaction of its own.
func (d *DB) putLogState(p netip.Prefix, s *logState) error {
	return d.Update(func(tx *Tx) error {
		tx.logStates = map[netip.Prefix]*logState{p: s}
		if s == nil {
			return tx.del(logStateKey(p))
		}
		return tx.put(logStateKey(p), s)
	})
}

// LogHead returns the head of the change log of p and the position that the log
// continues. ok is false if p is not logged, or if its log exceeded Options.MaxChangeLog
// or missed a change: then StartLog starts another, and replicas need a new snapshot.
// LogHead does not access the disk.
func (d *DB) LogHead(p netip.Prefix) (head, base LogPos, ok bool) {
	s, ok := d.logs.get(p)
	if !ok || s.Broken {
		return LogPos{}, LogPos{}, false
	}
	return s.Head, s.Base, true
}

// LogHead returns the head of the change log of p in this transaction. In a View, the
// state of the hosts of p is the result of the records up to head.
func (tx *Tx) LogHead(p netip.Prefix) (head LogPos, ok bool, err error) {
	s, err := tx.logState(p)
	if errors.Is(err, ErrNotInLog) {
		return LogPos{}, false, nil
	}
	return s.Head, err == nil, err
}

func (tx *Tx) logState(p netip.Prefix) (logState, error) {
	var s logState
	err := tx.get(logStateKey(p), &s)
	if errors.Is(err, ErrNotFound) || err == nil && s.Broken {
		err = fmt.Errorf("%w: %v", ErrNotInLog, p)
	}
	return s, err
}

// LogRecords calls fn for the records of the change log of p behind the sequence number
// after, in order and without gaps. fn may keep raw; it returns false to stop. The error
// is ErrNotInLog if p is not logged or the record behind after is trimmed.
func (tx *Tx) LogRecords(
	p netip.Prefix, after uint64, fn func(seq uint64, raw []byte) (bool, error),
) error {
	s, err := tx.logState(p)
	if err != nil {
		return err
	}
	if after < s.Through || after > s.Head.Seq {
		return fmt.Errorf("%w: %v: record after %d, have records after %d to %d", ErrNotInLog,
			p, after, s.Through, s.Head.Seq)
	}
	prefix := logPrefix(p, s.Head.Log)
	from := binary.BigEndian.AppendUint64(slices.Clone(prefix), after+1)
	return tx.t.Each(prefix, from, true, func(key []byte, it kv.Item) (bool, error) {
		seq, _, err := splitLogRecordKey(prefix, key)
		if err != nil {
			return false, err
		}
		raw, err := it.ValueCopy(nil)
		if err != nil {
			return false, fmt.Errorf("store: read: %w", err)
		}
		return fn(seq, raw)
	})
}

// TrimLog deletes the records of the change log of p up to through, inclusive. The caller
// knows that every replica has them on disk. TrimLog uses transactions of limited size.
func (d *DB) TrimLog(p netip.Prefix, through uint64) error {
	return d.updateWhile(func(tx *Tx) (bool, error) { return tx.trimLog(p, through) })
}

func (tx *Tx) trimLog(p netip.Prefix, through uint64) (more bool, err error) {
	s, err := tx.logState(p)
	if err != nil {
		return false, err
	}
	through = min(through, s.Head.Seq)
	more, err = tx.releaseCrossLinks(p, LogPos{Log: s.Head.Log, Seq: through})
	if err != nil || through <= s.Through {
		return more, err
	}
	var keys [][]byte
	last, prefix := s.Through, logPrefix(p, s.Head.Log)
	from := binary.BigEndian.AppendUint64(slices.Clone(prefix), s.Through+1)
	err = tx.t.Each(prefix, from, false, func(key []byte, _ kv.Item) (bool, error) {
		seq, size, err := splitLogRecordKey(prefix, key)
		if err != nil || seq > through || len(keys) == deleteBatchSize {
			return false, err
		}
		keys, last = append(keys, key), seq
		s.Bytes -= size
		return true, nil
	})
	if err != nil || len(keys) == 0 {
		return false, err
	}
	if err := tx.del(keys...); err != nil {
		return false, err
	}
	s.Through = last
	tx.logStates = map[netip.Prefix]*logState{p: &s}
	return more || last < through, tx.put(logStateKey(p), s)
}

// LogChanged returns a channel that receives a value after transactions that appended to
// a change log or broke one. It is for one reader.
func (d *DB) LogChanged() <-chan struct{} { return d.logs.changed }

func logStateKey(p netip.Prefix) []byte { return spaceKey(spaceLogState, p.String()) }

func logPrefix(p netip.Prefix, log uint64) []byte {
	return binary.BigEndian.AppendUint64(hostPrefix(spaceLog, p.String()), log)
}

// logRecordKey returns the key of a record. It contains the size, so that trimming need
// not read the record.
func logRecordKey(p netip.Prefix, log, seq uint64, size int) []byte {
	k := binary.BigEndian.AppendUint64(logPrefix(p, log), seq)
	return binary.BigEndian.AppendUint32(k, uint32(size))
}

func splitLogRecordKey(prefix, key []byte) (seq uint64, size int64, err error) {
	k := key[len(prefix):]
	if len(k) != 12 {
		return 0, 0, fmt.Errorf("%w: key %q", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(k), int64(binary.BigEndian.Uint32(k[8:])) + int64(len(key)), nil
}
