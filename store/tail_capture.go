package store

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"net/netip"
	"slices"
)

// txLog gathers what a transaction changes in subnets that are logged. A
// transaction has none while no subnet is: then all of this costs a nil check.
type txLog struct {
	hosts map[string]*hostLog
	links map[netip.Prefix][]wireOp
	bytes int

	cross map[netip.Prefix][]crossLink // by the subnet where they are queued
}

// hostLog is what a transaction does to one host.
type hostLog struct {
	home    netip.Prefix // when it was first touched; zero without a record
	logged  bool         // home is
	changed bool         // its record
	gone    bool         // its record was deleted
	whole   bool         // it is new where it is now
	left    []netip.Prefix
	ops     []wireOp
}

func (d *DB) newTxLog() *txLog {
	if !d.tail.any() {
		return nil
	}
	return &txLog{
		hosts: map[string]*hostLog{}, links: map[netip.Prefix][]wireOp{},
		cross: map[netip.Prefix][]crossLink{},
	}
}

// size is what the log of the transaction takes of it at most.
func (tx *Tx) logSize() int64 {
	if tx.log == nil {
		return 0
	}
	records := int64(1 + tx.log.bytes/recordBytes + len(tx.log.hosts)/4)
	return min(int64(tx.log.bytes), records*tx.d.threshold) + records*100
}

// noteKinds are the kinds of change by space: of a key that is set, and of one
// that is deleted.
var noteKinds = [256][2]OpKind{
	spaceQueue:  {0, OpUnqueue}, // setting is logEntry's
	spaceSeen:   {OpSeen, OpUnseen},
	spaceAgain:  {OpAgain, OpUnagain},
	spaceVisit:  {OpVisit, OpUnvisit},
	spaceDue:    {OpDue, OpUndue},
	spaceState:  {OpState, OpUnstate},
	spaceRobots: {OpRobots, 0},
	spaceHost:   {0, OpHostGone}, // setting is logHost's
}

// note logs that key is set to val or deleted.
func (tx *Tx) note(key, val []byte, set bool) error {
	kind := noteKinds[key[0]][1]
	if set {
		kind = noteKinds[key[0]][0]
	}
	if kind == 0 {
		return nil
	}
	op := wireOp{Kind: kind, Val: val}
	name := key[1:]
	switch key[0] {
	case spaceState, spaceHost:
	case spaceRobots:
		op.Key, name = name, []byte(URL(name).Host())
	default:
		i := bytes.IndexByte(name, 0)
		name, op.Key = name[:i], name[i+1:]
	}
	h, err := tx.hostLog(name)
	if err != nil || !h.logged {
		return err
	}
	if kind == OpVisit || kind == OpUnvisit {
		if op.Key = nil; kind == OpUnvisit {
			op.Key = key[len(name)+2:]
		}
	}
	h.gone = h.gone || kind == OpHostGone
	op.Name = string(name)
	tx.logOp(h, op)
	return nil
}

// logEntry logs that e waits under key.
func (tx *Tx) logEntry(host string, key, val []byte, marks byte) error {
	h, err := tx.hostLog([]byte(host))
	if err == nil && h.logged {
		place := append(slices.Clone(key[len(key)-10:]), marks)
		tx.logOp(h, wireOp{Kind: OpEntry, Name: host, Key: place, Val: val})
	}
	return err
}

func (tx *Tx) logOp(h *hostLog, op wireOp) {
	h.ops = append(h.ops, op)
	tx.log.bytes += op.size()
}

// hostLog returns what is gathered of a host.
func (tx *Tx) hostLog(name []byte) (*hostLog, error) {
	if h, ok := tx.log.hosts[string(name)]; ok {
		return h, nil
	}
	h := &hostLog{}
	rec, err := tx.Host(string(name))
	switch {
	case err == nil:
		h.home, h.logged = rec.Subnet, tx.d.tail.logged(rec.Subnet)
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	tx.log.hosts[string(name)] = h
	return h, nil
}

// logHost logs that a host's record is written; old is what was stored.
func (tx *Tx) logHost(old, rec *Host) error {
	h, err := tx.hostLog([]byte(rec.Name))
	if err != nil {
		return err
	}
	h.changed, h.gone = true, false
	h.whole = h.whole || old == nil || old.Subnet != rec.Subnet
	if old != nil && old.Subnet != rec.Subnet {
		h.left = append(h.left, old.Subnet)
	}
	tx.log.bytes += hostSize / 4
	return nil
}

// flushTail writes the records of the transaction, one a subnet if it is not
// too long.
func (tx *Tx) flushTail() error {
	if tx.log == nil || len(tx.log.hosts) == 0 && len(tx.log.links) == 0 {
		return nil
	}
	lists := map[netip.Prefix]*tailList{}
	for _, name := range slices.Sorted(maps.Keys(tx.log.hosts)) {
		if err := tx.listHost(lists, name, tx.log.hosts[name]); err != nil {
			return err
		}
	}
	for p, ops := range tx.log.links {
		listOf(lists, p).add(ops...)
	}
	if tx.tails == nil {
		tx.tails = map[netip.Prefix]*tailMeta{}
	}
	tx.grew = len(lists) > 0
	for _, p := range slices.SortedFunc(maps.Keys(lists), comparePrefix) {
		if err := tx.appendTail(p, lists[p]); err != nil {
			return err
		}
	}
	return nil
}

func comparePrefix(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}

// tailList is what a transaction has for one log.
type tailList struct {
	ops    []wireOp
	broken bool // there is more than goes into one transaction
}

func (l *tailList) add(ops ...wireOp) { l.ops = append(l.ops, ops...) }

func listOf(lists map[netip.Prefix]*tailList, p netip.Prefix) *tailList {
	l := lists[p]
	if l == nil {
		l = &tailList{}
		lists[p] = l
	}
	return l
}

// listHost adds what is gathered of a host to the logs of the subnets that it
// was in, and is in.
func (tx *Tx) listHost(lists map[netip.Prefix]*tailList, name string, h *hostLog) error {
	home := h.home
	if h.changed && !h.gone {
		home = tx.hosts[name].rec.Subnet
	}
	for _, p := range h.left {
		if p != home && tx.d.tail.logged(p) {
			listOf(lists, p).add(wireOp{Kind: OpHostGone, Name: name})
		}
	}
	if !tx.d.tail.logged(home) {
		return nil
	}
	switch {
	case h.gone:
		listOf(lists, home).add(wireOp{Kind: OpHostGone, Name: name})
	case h.whole:
		w := walker{tx: tx, budget: wholeBytes}
		if err := w.host(name, stageHost, nil); err != nil {
			return err
		}
		l := listOf(lists, home)
		l.add(w.ops...)
		l.broken = l.broken || w.full()
	default:
		if h.changed {
			val, err := encMode.Marshal(tx.hosts[name].rec)
			if err != nil {
				return err
			}
			listOf(lists, home).add(wireOp{Kind: OpHost, Name: name, Val: val})
		}
		listOf(lists, home).add(h.ops...)
	}
	return nil
}

// wholeBytes bounds what a host that comes into a logged subnet brings with it.
// One that brings more breaks the log: the subnet's replicas need a snapshot.
const wholeBytes = 192 << 10

// appendTail writes the records of one subnet.
func (tx *Tx) appendTail(p netip.Prefix, l *tailList) error {
	if len(l.ops) == 0 && !l.broken {
		return nil
	}
	m, ok := tx.d.tail.get(p)
	if t := tx.tails[p]; t != nil { // trimmed by this transaction
		m = *t
	}
	if !ok || m.Broken {
		return nil
	}
	var raws [][]byte
	var size int64
	for _, part := range splitOps(l.ops) {
		raw, err := encodeOps(part)
		if err != nil {
			return err
		}
		raws = append(raws, raw)
		size += int64(len(raw) + len(recordKey(p, 0, 0, 0)))
	}
	if l.broken || m.Bytes+size > tx.d.tail.max {
		m.Broken = true
		raws = nil
	}
	for _, raw := range raws {
		m.Head.Seq++
		if err := tx.write(recordKey(p, m.Head.Log, m.Head.Seq, len(raw)), raw); err != nil {
			return err
		}
	}
	m.Bytes += size
	if err := tx.putCross(p, m.Head); err != nil {
		return err
	}
	tx.tails[p] = &m
	return tx.put(tailKey(p), m)
}

// splitOps cuts ops into what one record holds each. An op that clears stays
// with those behind it that say what is to be kept.
func splitOps(ops []wireOp) (parts [][]wireOp) {
	size, begin := 0, 0
	for i := range ops {
		if i > begin && (size >= recordBytes || i-begin >= recordOps) {
			parts = append(parts, ops[begin:i])
			begin, size = i, 0
		}
		size += ops[i].size()
	}
	if begin < len(ops) {
		parts = append(parts, ops[begin:])
	}
	return parts
}

// committedTails takes in the logs' state of a transaction that was committed.
func (d *DB) committedTails(tx *Tx) {
	if len(tx.tails) == 0 {
		return
	}
	d.tail.put(tx.tails)
	if tx.grew {
		d.tail.signal()
	}
}
