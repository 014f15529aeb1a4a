package store

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"peerd/store/kv"
)

// The stages of a walk: of each host its record, state and robots.txt, then the
// spaces of which it has many; in the end the out-links of the subnet.
const (
	stageNext  = 0 // the host after Host
	stageHost  = 1
	stageSpace = 2
	stageLinks = stageSpace + 5
)

var walkSpaces = [5]struct {
	space byte
	kind  OpKind
}{
	{spaceQueue, OpEntry}, {spaceAgain, OpAgain}, {spaceSeen, OpSeen}, {spaceVisit, OpVisit}, {spaceDue, OpDue},
}

// walkCursor says where a walk goes on: behind After in a stage of Host.
type walkCursor struct {
	_     struct{} `cbor:",toarray"`
	Host  string
	Stage int
	After []byte
}

func (c walkCursor) check() error {
	if len(c.Host) > maxNameLen || c.Host != "" && !goodName(c.Host) || c.Stage < 0 || c.Stage > stageLinks || len(c.After) > 32 {
		return fmt.Errorf("%w: cursor", ErrBadOps)
	}
	return nil
}

// Snapshot returns the piece of p's state that lies behind cursor, of about
// budget bytes before compression (at most half a MiB), in the form of a record
// of the log, and the cursor behind it: nil when it is the last. The first
// cursor is nil. The pieces may come from different Views: who applies them in
// order, and in between or after them all records of the log from the head that
// the first View had, in order, has the owner's state. But a piece must be
// applied before any record behind the head (Tx.TailHead) of its own View. A
// piece also clears what it knows to be gone, so a replica may begin, or begin
// again, with whatever it holds of p. It belongs into a View; the subnet should
// be logged, else its out-links are not found. cursor may be foreign bytes.
func (tx *Tx) Snapshot(p netip.Prefix, cursor []byte, budget int) (raw, next []byte, err error) {
	c := walkCursor{}
	if cursor != nil {
		if err := opDec.Unmarshal(cursor, &c); err != nil {
			return nil, nil, fmt.Errorf("%w: cursor: %v", ErrBadOps, err)
		}
		if err := c.check(); err != nil {
			return nil, nil, err
		}
	}
	w := walker{tx: tx, budget: min(max(budget, 1), recordBytes*2)}
	if err := w.subnet(p, c); err != nil {
		return nil, nil, err
	}
	if raw, err = encodeOps(w.ops); err != nil || !w.full() {
		return raw, nil, err
	}
	next, err = encMode.Marshal(w.at)
	return raw, next, err
}

// walker gathers what a walk finds.
type walker struct {
	tx     *Tx
	budget int
	ops    []wireOp
	size   int
	at     walkCursor // where it stopped, when it is full
	isFull bool
}

// What a walk takes of the robots.txt files of one host: who has more fetches
// them again.
const (
	walkRobots      = 64
	walkRobotsBytes = 1 << 20
	walkSpare       = 2 * walkRobots // ops kept free for them in a piece
)

func (w *walker) full() bool { return w.isFull }

// add takes an op in. It is false when no other should follow.
func (w *walker) add(op wireOp) bool {
	w.ops = append(w.ops, op)
	w.size += op.size()
	return w.size < w.budget && len(w.ops) < recordOps-walkSpare
}

func (w *walker) stop(at walkCursor) { w.at, w.isFull = at, true }

// subnet walks from c on.
func (w *walker) subnet(p netip.Prefix, c walkCursor) error {
	if c.Stage >= stageHost && c.Stage < stageLinks {
		if err := w.host(c.Host, c.Stage, c.After); err != nil || w.isFull {
			return err
		}
	}
	if c.Stage < stageLinks {
		if err := w.hosts(p, c.Host); err != nil || w.isFull {
			return err
		}
		c.After = nil
	}
	return w.links(p, c.After)
}

// hosts walks the hosts behind last.
func (w *walker) hosts(p netip.Prefix, last string) error {
	for {
		name, err := w.nextHost(p, last)
		if err != nil {
			return err
		}
		w.add(clearOp(wireOp{Kind: OpClearHosts}, []byte(last), []byte(name)))
		if name == "" {
			return nil
		}
		if err := w.host(name, stageHost, nil); err != nil || w.isFull {
			return err
		}
		if last = name; w.size >= w.budget || len(w.ops) > recordOps/2 {
			w.stop(walkCursor{Host: last})
			return nil
		}
	}
}

func (w *walker) nextHost(p netip.Prefix, last string) (name string, err error) {
	prefix := homePrefix(p)
	var after []byte
	if last != "" {
		after = homeKey(p, last)
	}
	err = w.tx.each(prefix, after, false, func(key []byte, _ kv.Item) (bool, error) {
		name = string(key[len(prefix):])
		return false, nil
	})
	return name, err
}

// host walks one host from a stage on.
func (w *walker) host(name string, stage int, after []byte) error {
	if stage == stageHost {
		if err := w.record(name); err != nil {
			return err
		}
		stage = stageSpace
	}
	for ; stage < stageLinks; stage++ {
		if err := w.space(name, stage, after); err != nil || w.isFull {
			return err
		}
		after = nil
	}
	return nil
}

// record adds the host's record, state and robots.txt.
func (w *walker) record(name string) error {
	rec, err := w.tx.Host(name)
	if err == ErrNotFound {
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
	switch state, err := w.tx.State(name); err {
	case nil:
		w.add(wireOp{Kind: OpState, Name: name, Val: state})
	case ErrNotFound:
		w.add(wireOp{Kind: OpUnstate, Name: name})
	default:
		return err
	}
	n, size := 0, 0
	return w.tx.RobotsOf(name, func(origin string, v []byte) error {
		if n++; n <= walkRobots && size+len(v) <= walkRobotsBytes {
			size += len(v)
			w.add(wireOp{Kind: OpRobots, Name: name, Key: []byte(origin), Val: v})
		}
		return nil
	})
}

// space walks one space of a host, behind after.
func (w *walker) space(name string, stage int, after []byte) error {
	s := walkSpaces[stage-stageSpace]
	clearAt := len(w.ops)
	w.add(wireOp{})
	last := after
	prefix := hostPrefix(s.space, name)
	var from []byte
	if after != nil {
		from = append(slices.Clone(prefix), after...)
	}
	full := false
	err := w.tx.each(prefix, from, s.kind == OpEntry || s.kind == OpVisit, func(key []byte, it kv.Item) (bool, error) {
		op := wireOp{Kind: s.kind, Name: name, Key: key[len(prefix):]}
		last = op.Key
		var err error
		switch s.kind {
		case OpEntry:
			op.Key = append(slices.Clone(op.Key), 0)
			op.Val, err = it.ValueCopy(nil)
		case OpVisit:
			op.Key = nil
			op.Val, err = it.ValueCopy(nil)
		}
		full = !w.add(op)
		return !full, err
	})
	hi := []byte(nil)
	if full {
		hi = last
		w.stop(walkCursor{Host: name, Stage: stage, After: last})
	}
	w.ops[clearAt] = clearOp(wireOp{Kind: OpClear, Name: name, Key: []byte{s.space}}, after, hi)
	return err
}

// links walks the out-links of the subnet, behind after.
func (w *walker) links(p netip.Prefix, after []byte) error {
	clearAt := len(w.ops)
	w.add(wireOp{})
	var keys [][]byte // of the put-aside table; read when the iteration is over
	var cross [][]byte
	prefix := outlinkPrefix(spaceFrom, p)
	var from []byte
	if after != nil {
		from = append(slices.Clone(prefix), after...)
	}
	n := max(1, min(recordOps-len(w.ops)-walkSpare, (w.budget-w.size)/150))
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
		if isCross(val) {
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
		w.stop(walkCursor{Stage: stageLinks, After: last})
	}
	w.ops[clearAt] = clearOp(wireOp{Kind: OpClearLinks}, after, hi)
	return nil
}

func clearOp(op wireOp, lo, hi []byte) wireOp {
	op.Val, _ = encMode.Marshal(clearRange{Lo: bytes.Clone(lo), Hi: bytes.Clone(hi)})
	return op
}
