package store

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"peerd/store/kv"
)

// The stages of a snapshot. For each host come its record, state and robots.txt, then the
// spaces of which a host has many keys; at the end come the out-links of the subnet.
const (
	stageNext     = 0 // the host behind Host
	stageHost     = 1
	stageSpace    = 2
	stageOutlinks = stageSpace + len(snapshotSpaces)
)

var snapshotSpaces = [6]struct {
	space byte
	kind  OpKind
}{
	{spaceQueue, OpEntry}, {spaceRevisit, OpRevisit}, {spaceSeen, OpSeen}, {spaceVisit, OpVisit},
	{spaceDue, OpDue}, {spaceGivenUp, OpGivenUp},
}

// snapshotCursor is the position where a snapshot continues: behind After in a stage.
type snapshotCursor struct {
	_     struct{} `cbor:",toarray"`
	Host  string
	Stage int
	After []byte
}

func (c snapshotCursor) check() error {
	if len(c.Host) > maxNameLen || c.Host != "" && !validName(c.Host) || c.Stage < 0 ||
		c.Stage > stageOutlinks || len(c.After) > 32 {
		return fmt.Errorf("%w: cursor", ErrInvalidOps)
	}
	return nil
}

// Snapshot returns the piece of the state of p behind cursor, in the format of a log
// record, of about budget bytes before compression (at most half a MiB). next is the
// cursor of the following piece, nil after the last. The first cursor is nil. cursor may
// come from another peer. Snapshot is for a View; p should be logged, because out-links
// are found only then.
//
// The pieces may come from different Views. A replica that applies all of them in order
// has the owner's state after it has also applied, in order, all log records behind the
// head in the first View. A piece must be applied before any record behind the head
// (Tx.LogHead) in the View of the piece. Pieces also delete what the owner does not
// have, so a replica may start, or start over, with any copy of p.
func (tx *Tx) Snapshot(p netip.Prefix, cursor []byte, budget int) (raw, next []byte, err error) {
	c := snapshotCursor{}
	if cursor != nil {
		if err := opDec.Unmarshal(cursor, &c); err != nil {
			return nil, nil, fmt.Errorf("%w: cursor: %w", ErrInvalidOps, err)
		}
		if err := c.check(); err != nil {
			return nil, nil, err
		}
	}
	w := snapshotter{tx: tx, budget: min(max(budget, 1), recordBytes*2)}
	if err := w.subnet(p, c); err != nil {
		return nil, nil, err
	}
	if raw, err = encodeOps(w.ops); err != nil || !w.full {
		return raw, nil, err
	}
	next, err = encMode.Marshal(w.at)
	return raw, next, err
}

// snapshotter collects the operations of a snapshot piece.
type snapshotter struct {
	tx     *Tx
	budget int
	ops    []wireOp
	size   int
	at     snapshotCursor // where it stopped, if full
	full   bool
}

// Limits of the robots.txt files of one host in a snapshot. A replica fetches others
// again.
const (
	maxRobotsFiles = 64
	maxRobotsBytes = 1 << 20
	reservedOps    = 2 * maxRobotsFiles // operations reserved for them in a piece
)

// add adds an operation. It returns false if no other should follow.
func (w *snapshotter) add(op wireOp) bool {
	w.ops = append(w.ops, op)
	w.size += op.size()
	return w.size < w.budget && len(w.ops) < recordOps-reservedOps
}

func (w *snapshotter) stop(at snapshotCursor) { w.at, w.full = at, true }

// subnet adds the subnet from c on.
func (w *snapshotter) subnet(p netip.Prefix, c snapshotCursor) error {
	if c.Stage >= stageHost && c.Stage < stageOutlinks {
		if err := w.host(c.Host, c.Stage, c.After); err != nil || w.full {
			return err
		}
	}
	if c.Stage < stageOutlinks {
		if err := w.hosts(p, c.Host); err != nil || w.full {
			return err
		}
		c.After = nil
	}
	return w.outlinks(p, c.After)
}

// hosts adds the hosts behind last.
func (w *snapshotter) hosts(p netip.Prefix, last string) error {
	for {
		name, err := w.nextHost(p, last)
		if err != nil {
			return err
		}
		w.add(clearOp(wireOp{Kind: OpClearHosts}, []byte(last), []byte(name)))
		if name == "" {
			return nil
		}
		if err := w.host(name, stageHost, nil); err != nil || w.full {
			return err
		}
		if last = name; w.size >= w.budget || len(w.ops) > recordOps/2 {
			w.stop(snapshotCursor{Host: last})
			return nil
		}
	}
}

// nextHost returns the name of the host behind last; "" if there is none.
func (w *snapshotter) nextHost(p netip.Prefix, last string) (string, error) {
	names, err := w.tx.hostsBetween(p, last, "", 1)
	return strings.Join(names, ""), err
}

// host adds one host from a stage on.
func (w *snapshotter) host(name string, stage int, after []byte) error {
	if stage == stageHost {
		if err := w.record(name); err != nil {
			return err
		}
		stage = stageSpace
	}
	for ; stage < stageOutlinks; stage++ {
		if err := w.space(name, stage, after); err != nil || w.full {
			return err
		}
		after = nil
	}
	return nil
}

// record adds the record, the state and the robots.txt of a host.
func (w *snapshotter) record(name string) error {
	rec, err := w.tx.Host(name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	val, err := encMode.Marshal(rec)
	if err != nil {
		return fmt.Errorf("store: encode: %w", err)
	}
	w.add(wireOp{Kind: OpHost, Name: name, Val: val})
	state, err := w.tx.State(name)
	switch {
	case err == nil:
		w.add(wireOp{Kind: OpState, Name: name, Val: state})
	case errors.Is(err, ErrNotFound):
		w.add(wireOp{Kind: OpDeleteState, Name: name})
	default:
		return err
	}
	n, size := 0, 0
	return w.tx.RobotsOf(name, func(origin string, v []byte) error {
		if n++; n <= maxRobotsFiles && size+len(v) <= maxRobotsBytes {
			size += len(v)
			w.add(wireOp{Kind: OpRobots, Name: name, Key: []byte(origin), Val: v})
		}
		return nil
	})
}

// space adds one key space of a host, behind after.
func (w *snapshotter) space(name string, stage int, after []byte) error {
	s := snapshotSpaces[stage-stageSpace]
	clearAt := len(w.ops)
	w.add(wireOp{})
	last := after
	prefix := hostPrefix(s.space, name)
	from := keyBehind(prefix, string(after))
	full := false
	err := w.tx.each(prefix, from, s.kind == OpEntry || s.kind == OpVisit || s.kind == OpGivenUp,
		func(key []byte, it kv.Item) (bool, error) {
			op := wireOp{Kind: s.kind, Name: name, Key: key[len(prefix):]}
			last = op.Key
			var err error
			switch s.kind {
			case OpEntry:
				op.Key = append(slices.Clone(op.Key), 0)
				op.Val, err = it.ValueCopy(nil)
			case OpVisit, OpGivenUp:
				op.Key = nil
				op.Val, err = it.ValueCopy(nil)
			}
			full = !w.add(op)
			return !full, err
		})
	hi := []byte(nil)
	if full {
		hi = last
		w.stop(snapshotCursor{Host: name, Stage: stage, After: last})
	}
	w.ops[clearAt] = clearOp(wireOp{Kind: OpClear, Name: name, Key: []byte{s.space}}, after, hi)
	return err
}

// outlinks adds the out-links of the subnet, behind after.
func (w *snapshotter) outlinks(p netip.Prefix, after []byte) error {
	clearAt := len(w.ops)
	w.add(wireOp{})
	var keys [][]byte // of pending URLs; read after the iteration
	var cross [][]byte
	prefix := outlinkPrefix(spaceOutlinkIndex, p)
	from := keyBehind(prefix, string(after))
	n := max(1, min(recordOps-len(w.ops)-reservedOps, (w.budget-w.size)/150))
	last, more := after, false
	err := w.tx.each(prefix, from, true, func(key []byte, it kv.Item) (bool, error) {
		if more = len(keys)+len(cross) == n; more {
			return false, nil
		}
		last = key[len(prefix):]
		val, err := it.ValueCopy(nil)
		if err != nil {
			return false, fmt.Errorf("store: read: %w", err)
		}
		if isCrossLink(val) {
			cross = append(cross, val[1:])
		} else {
			keys = append(keys, append(hostPrefix(spacePending, string(val)), last...))
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	for _, k := range keys {
		val, err := w.tx.bytes(k)
		if err != nil {
			return fmt.Errorf("out-link of %v: %w", p, err)
		}
		w.add(wireOp{Kind: OpOutlink, Val: val})
	}
	for _, val := range cross {
		w.add(wireOp{Kind: OpOutlink, Val: val})
	}
	hi := []byte(nil)
	if more {
		hi = last
		w.stop(snapshotCursor{Stage: stageOutlinks, After: last})
	}
	w.ops[clearAt] = clearOp(wireOp{Kind: OpClearOutlinks}, after, hi)
	return nil
}

func clearOp(op wireOp, lo, hi []byte) wireOp {
	op.Val, _ = encMode.Marshal(keyRange{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi)})
	return op
}
