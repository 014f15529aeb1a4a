package witness

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

// hash returns 64 bits of the world's encoding. Equal futures have equal encodings: times are
// written as ages, which stop to matter after some minutes.
func (s *exSearch) hash(w *exWorld) uint64 {
	e := exEncoder{s.buf[:0]}
	for p := range w.peers {
		e.peer(s.m, w, p)
	}
	for _, list := range [][]exMessage{w.net, w.late} {
		e.num(len(list))
		for _, x := range list {
			e.message(w, x)
		}
	}
	for _, row := range w.cut {
		e.flag(row[:]...)
	}
	l := w.left
	e.num(int(l.Faults), int(l.Ticks), int(l.Longs), int(l.Writes), int(l.Moves), int(l.Attempts),
		int(l.Reads), int(w.acked), int(w.served), len(w.broken))
	s.buf = e.b
	d := sha256.Sum256(e.b)
	return binary.LittleEndian.Uint64(d[:])
}

type exEncoder struct{ b []byte }

func (e *exEncoder) num(values ...int) {
	for _, v := range values {
		e.b = binary.AppendVarint(e.b, int64(v))
	}
}

func (e *exEncoder) flag(values ...bool) {
	for _, v := range values {
		if v {
			e.b = append(e.b, 1)
		} else {
			e.b = append(e.b, 0)
		}
	}
}

// age writes the seconds since a time, as far as they matter.
func (e *exEncoder) age(now time.Time, times ...time.Time) {
	for _, t := range times {
		switch age := now.Sub(t); {
		case t.IsZero():
			e.num(-100)
		default:
			e.num(int(min(age, 400*time.Second) / time.Second))
		}
	}
}

func (e *exEncoder) lease(l lease.Lease) {
	if l.Epoch == 0 {
		e.b = append(e.b, 0)
		return
	}
	d := l.Digest()
	e.b = append(e.b, d[:6]...)
}

func (e *exEncoder) unit(now time.Time, u ownership.Unit) {
	e.num(int(u.State), int(u.Doubt), int(u.Why))
	e.b = append(e.b, u.To...)
	e.flag(u.Decided)
	e.age(now, u.VotedAt)
}

func (e *exEncoder) copy(now time.Time, c exCopy) {
	e.lease(c.of)
	e.flag(c.complete)
	e.age(now, c.confirmed)
}

func (e *exEncoder) peer(m *exModel, w *exWorld, p int) {
	x := &w.peers[p]
	now := w.clock(p)
	d := x.disk
	e.flag(x.up, d.fresh)
	e.unit(now, d.unit)
	e.lease(d.lease)
	e.lease(d.record)
	e.flag(d.replicas[:]...)
	e.flag(d.sets[:]...)
	e.copy(now, d.copy)
	e.num(int(d.urls), int(d.outbox))
	e.age(now, d.awake)
	for _, votes := range d.votes {
		v, ok := votes[exSubnet]
		e.flag(ok)
		e.num(int(v.Epoch), m.index(v.To))
	}
	if !x.up {
		return
	}
	e.unit(now, x.unit)
	e.lease(x.lease)
	e.lease(x.known)
	e.copy(now, x.copy)
	e.age(now, x.started, x.awake, x.since, x.copied, x.renewAt)
	for _, r := range x.replicas {
		e.flag(r.chosen, r.synced)
		e.num(int(r.has))
		e.age(now, r.well, r.until)
		e.age(now, r.replied)
	}
	for _, v := range x.votes {
		e.num(m.index(v.By))
		e.age(now, v.First, v.Last)
	}
	for _, sn := range x.seen {
		e.lease(sn.step)
		e.age(now, sn.at)
	}
	e.age(now, x.heard[:]...)
	e.age(now, x.told[:]...)
	e.age(now, x.shunned[:]...)
	if v := x.vote; v != nil {
		e.num(v.owner, len(v.by))
		e.lease(v.ended)
		e.flag(v.won, v.read)
		e.age(now, v.until.Add(-VoteWindow))
	}
	e.witnesses(m, x, now)
}

// witnesses writes a peer's state as an owner and as a witness.
func (e *exEncoder) witnesses(m *exModel, x *exPeer, now time.Time) {
	e.age(now, x.witness.votesFrom)
	for q := range m.ids {
		if o := x.owner.members[m.ids[q]]; o != nil {
			e.age(now, o.sent, o.added, o.countsFrom)
			e.num(int(o.lastNotice), int(o.expected), int(o.known))
			e.flag(o.incarnation != 0, o.voted)
		}
		s := x.witness.watched[m.ids[q]]
		e.flag(s != nil)
		if s == nil {
			continue
		}
		e.age(now, s.heard)
		e.num(int(s.acknowledged))
		if v := s.votes[exSubnet]; v != nil {
			e.num(int(v.epoch), m.index(v.to), int(v.num))
			e.age(now, v.at)
			e.flag(v.attempt == 0)
		}
	}
}

func (e *exEncoder) message(w *exWorld, x exMessage) {
	e.num(x.from, x.to, int(x.what), int(x.urls), int(x.beat.LastNotice), int(x.ack.Known),
		len(x.ack.Notices))
	asker := x.from
	if x.isAnswer() {
		asker = x.to
	}
	e.flag(x.granted, x.run == w.peers[asker].runs, w.peers[x.from].attempt == x.attempt,
		w.peers[x.to].attempt == x.attempt)
	e.lease(x.lease)
	for _, n := range x.ack.Notices {
		e.num(int(n.Num), int(n.Epoch))
	}
	if x.isAnswer() {
		e.age(w.clock(x.to), x.stamp)
		e.age(w.clock(x.from), x.got)
	} else {
		e.age(w.clock(x.from), x.stamp)
		e.age(w.clock(x.to), x.got)
	}
}

// exNamesOf makes the peers' names and witness sets.
func exNamesOf(peers []testPeer) (n exNames, err error) {
	for i := range n.ids {
		n.ids[i] = peers[i].id
	}
	for i, x := range peers[:exPeers] {
		p := lease.WitnessSet{Network: "test", Owner: x.id, Seq: 1, Issued: exStart}
		for j, id := range n.ids {
			if j != i {
				p.Members = append(p.Members, id)
			}
		}
		slices.Sort(p.Members)
		sealed, err := lease.SealWitnessSet(p, x.key)
		if err != nil {
			return n, err
		}
		n.sets[i] = sealedSet{p, sealed}
	}
	return n, nil
}
