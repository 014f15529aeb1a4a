package store

import (
	"bytes"
	"errors"
	"maps"
	"net/netip"
	"slices"
)

// txLog collects the changes of a transaction in logged subnets. It is nil if no subnet
// is logged.
type txLog struct {
	hosts    map[string]*hostChanges
	outlinks map[netip.Prefix][]wireOp
	bytes    int

	crossLinks map[netip.Prefix][]crossLink // by the subnet where the URL is queued
}

// hostChanges are the changes of a transaction to one host.
type hostChanges struct {
	subnet      netip.Prefix // as stored at the first change; zero if the host had no record
	logged      bool         // subnet is logged
	changed     bool         // the record was written
	deleted     bool         // the record was deleted
	isNew       bool         // the host came into its present subnet
	leftSubnets []netip.Prefix
	ops         []wireOp
}

func (d *DB) newTxLog() *txLog {
	if !d.logs.anyActive() {
		return nil
	}
	return &txLog{
		hosts: map[string]*hostChanges{}, outlinks: map[netip.Prefix][]wireOp{},
		crossLinks: map[netip.Prefix][]crossLink{},
	}
}

// logSize returns the maximum size of the log records of the transaction.
func (tx *Tx) logSize() int64 {
	if tx.log == nil {
		return 0
	}
	records := int64(1 + tx.log.bytes/recordBytes + len(tx.log.hosts)/4)
	return min(int64(tx.log.bytes), records*tx.d.threshold) + records*100
}

// opKindsBySpace are the kinds of the operations that log the setting and the deletion of
// a key, by key space.
var opKindsBySpace = [256][2]OpKind{
	spaceQueue:   {0, OpDeleteEntry}, // logEntry logs the setting
	spaceSeen:    {OpSeen, OpDeleteSeen},
	spaceRevisit: {OpRevisit, OpDeleteRevisit},
	spaceVisit:   {OpVisit, OpDeleteVisit},
	spaceDue:     {OpDue, OpDeleteDue},
	spaceGivenUp: {OpGivenUp, OpDeleteGivenUp},
	spaceState:   {OpState, OpDeleteState},
	spaceRobots:  {OpRobots, 0},
	spaceHost:    {0, OpDeleteHost}, // logHost logs the setting
}

// logChange logs that key is set to val or deleted.
func (tx *Tx) logChange(key, val []byte, set bool) error {
	kind := opKindsBySpace[key[0]][1]
	if set {
		kind = opKindsBySpace[key[0]][0]
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
	h, err := tx.hostChanges(name)
	if err != nil || !h.logged {
		return err
	}
	if kind == OpVisit || kind == OpGivenUp {
		op.Key = nil // the value contains the URL
	}
	h.deleted = h.deleted || kind == OpDeleteHost
	op.Name = string(name)
	tx.logOp(h, op)
	return nil
}

// logEntry logs that an entry, encoded in val, is queued under key.
func (tx *Tx) logEntry(host string, key, val []byte, flags byte) error {
	h, err := tx.hostChanges([]byte(host))
	if err == nil && h.logged {
		pos := append(slices.Clone(key[len(key)-10:]), flags)
		tx.logOp(h, wireOp{Kind: OpEntry, Name: host, Key: pos, Val: val})
	}
	return err
}

func (tx *Tx) logOp(h *hostChanges, op wireOp) {
	h.ops = append(h.ops, op)
	tx.log.bytes += op.size()
}

// hostChanges returns the changes collected for a host.
func (tx *Tx) hostChanges(name []byte) (*hostChanges, error) {
	if h, ok := tx.log.hosts[string(name)]; ok {
		return h, nil
	}
	h := &hostChanges{}
	p, err := tx.storedSubnet(string(name))
	switch {
	case err == nil:
		h.subnet, h.logged = p, tx.d.logs.logged(p)
	case !errors.Is(err, ErrNotFound):
		return nil, err
	}
	tx.log.hosts[string(name)] = h
	return h, nil
}

// storedSubnet returns the subnet of a host as it is stored, or ErrNotFound. The transaction may
// have changed the record, and may change it back.
func (tx *Tx) storedSubnet(name string) (netip.Prefix, error) {
	if _, known := tx.hosts[name]; !known {
		if _, err := tx.Host(name); err != nil {
			return netip.Prefix{}, err
		}
	}
	if old := tx.hosts[name].old; old != nil {
		return old.Subnet, nil
	}
	var old Host
	err := tx.get(spaceKey(spaceHost, name), &old)
	return old.Subnet, err
}

// logHost logs that the record of a host is written.
func (tx *Tx) logHost(s *hostSlot) error {
	old, rec := s.old, s.rec
	h, err := tx.hostChanges([]byte(rec.Name))
	if err != nil {
		return err
	}
	h.changed, h.deleted = true, false
	h.isNew = h.isNew || old == nil || old.Subnet != rec.Subnet
	if old != nil && old.Subnet != rec.Subnet && !s.moved {
		h.leftSubnets = append(h.leftSubnets, old.Subnet)
	}
	tx.log.bytes += maxHostSize / 4
	return nil
}

// flushLog writes the log records of the transaction: one for each changed subnet, or
// more if there are many changes.
func (tx *Tx) flushLog() error {
	if tx.log == nil || len(tx.log.hosts) == 0 && len(tx.log.outlinks) == 0 {
		return nil
	}
	lists := map[netip.Prefix]*opList{}
	for _, name := range slices.Sorted(maps.Keys(tx.log.hosts)) {
		if err := tx.addHostOps(lists, name, tx.log.hosts[name]); err != nil {
			return err
		}
	}
	for p, ops := range tx.log.outlinks {
		opListOf(lists, p).add(ops...)
	}
	if tx.logStates == nil {
		tx.logStates = map[netip.Prefix]*logState{}
	}
	tx.logChanged = len(lists) > 0
	for _, p := range slices.SortedFunc(maps.Keys(lists), netip.Prefix.Compare) {
		if err := tx.appendLog(p, lists[p]); err != nil {
			return err
		}
	}
	return nil
}

// opList is the list of operations of a transaction for one change log.
type opList struct {
	ops    []wireOp
	broken bool // the operations do not fit into one transaction
}

func (l *opList) add(ops ...wireOp) { l.ops = append(l.ops, ops...) }

func opListOf(lists map[netip.Prefix]*opList, p netip.Prefix) *opList {
	l := lists[p]
	if l == nil {
		l = &opList{}
		lists[p] = l
	}
	return l
}

// addHostOps adds the changes of a host to the lists of the subnets that it was in and
// of the one that it is in.
func (tx *Tx) addHostOps(lists map[netip.Prefix]*opList, name string, h *hostChanges) error {
	subnet := h.subnet
	if h.changed && !h.deleted {
		subnet = tx.hosts[name].rec.Subnet
	}
	for _, p := range h.leftSubnets {
		if p != subnet && tx.d.logs.logged(p) {
			opListOf(lists, p).add(wireOp{Kind: OpDeleteHost, Name: name})
		}
	}
	if !tx.d.logs.logged(subnet) {
		return nil
	}
	switch {
	case h.deleted:
		opListOf(lists, subnet).add(wireOp{Kind: OpDeleteHost, Name: name})
	case h.isNew:
		w := snapshotter{tx: tx, budget: maxMovedHost}
		if err := w.host(name, stageHost, nil); err != nil {
			return err
		}
		l := opListOf(lists, subnet)
		l.add(w.ops...)
		l.broken = l.broken || w.full
	default:
		if h.changed {
			val, err := encMode.Marshal(tx.hosts[name].rec)
			if err != nil {
				return err
			}
			opListOf(lists, subnet).add(wireOp{Kind: OpHost, Name: name, Val: val})
		}
		opListOf(lists, subnet).add(h.ops...)
	}
	return nil
}

// maxMovedHost is the maximum size in bytes of a host that is logged when it comes into a
// logged subnet. A larger one breaks the log: the replicas need a new snapshot.
const maxMovedHost = 192 << 10

// appendLog appends the records of one subnet to its change log.
func (tx *Tx) appendLog(p netip.Prefix, l *opList) error {
	if len(l.ops) == 0 && !l.broken {
		return nil
	}
	s, ok := tx.d.logs.get(p)
	if t := tx.logStates[p]; t != nil { // trimmed by this transaction
		s = *t
	}
	if !ok || s.Broken {
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
		size += int64(len(raw) + len(logRecordKey(p, 0, 0, 0)))
	}
	if l.broken || s.Bytes+size > tx.d.logs.max {
		s.Broken = true
		raws = nil
	}
	for _, raw := range raws {
		s.Head.Seq++
		if err := tx.write(logRecordKey(p, s.Head.Log, s.Head.Seq, len(raw)), raw); err != nil {
			return err
		}
	}
	s.Bytes += size
	if err := tx.putCrossLinks(p, s.Head); err != nil {
		return err
	}
	tx.logStates[p] = &s
	return tx.put(logStateKey(p), s)
}

// splitOps splits ops into lists for one record each.
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

// committedLogs updates the log states in memory after the commit of tx.
func (d *DB) committedLogs(tx *Tx) {
	if len(tx.logStates) == 0 {
		return
	}
	d.logs.put(tx.logStates)
	if tx.logChanged {
		d.logs.signal()
	}
}
