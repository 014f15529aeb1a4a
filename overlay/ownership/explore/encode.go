package explore

import (
	"encoding/binary"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
)

// An encoder writes a world so that equal futures have equal encodings: times as ages, which
// stop to matter above the longest wait, records as their last lease.
type encoder struct{ b []byte }

func (e *encoder) num(values ...int) {
	for _, v := range values {
		e.b = binary.AppendVarint(e.b, int64(v))
	}
}

func (e *encoder) flag(values ...bool) {
	for _, v := range values {
		if v {
			e.b = append(e.b, 1)
		} else {
			e.b = append(e.b, 0)
		}
	}
}

// age writes the time since then, if that can still matter.
func (e *encoder) age(now, then time.Duration) {
	switch age := now - then; {
	case age >= ownership.LostAfter:
		e.num(-4)
	case age >= ownership.RecreateAfter:
		e.num(-3)
	case age >= ownership.AloneAfter+ownership.Promise:
		e.num(-2)
	default:
		e.num(int(age / time.Second))
	}
}

func (e *encoder) lease(l *ownership.Lease) {
	id := l.ID()
	e.b = append(e.b, id[:6]...)
}

func (e *encoder) record(r ownership.Record) { e.lease(r.Newest()) }

func (e *encoder) ballot(b ownership.Ballot) {
	e.num(int(b.N))
	e.b = append(append(e.b, b.By...), 0)
}

func (e *encoder) ids(ids []peer.ID) {
	mask := 0
	for _, id := range ids {
		mask |= 1 << index(id)
	}
	e.num(mask)
}

func (e *encoder) member(m ownership.Member) {
	if m.ID == "" {
		e.num(-1)
		return
	}
	e.num(index(m.ID), int(m.Store))
}

func (e *encoder) unit(u ownership.Unit) {
	e.num(int(u.State), int(u.Then), int(u.Reasons), int(u.Copy), int(u.N), int(u.Seq))
	e.record(u.Record)
	e.member(u.To)
	e.ids(u.Replicas)
	a := u.Ask
	e.num(int(a.Phase), len(a.Said))
	e.flag(a.Near)
	e.ballot(a.Ballot)
	e.ballot(a.Best)
	e.lease(a.Want)
	e.lease(a.Lease)
	for _, s := range a.Said {
		e.member(s.By)
	}
}

func (e *encoder) ledger(l ownership.Ledger) {
	e.record(l.Record)
	e.ballot(l.Promised)
	e.ballot(l.Signed)
	e.lease(l.Lease)
	e.num(int(l.Seq))
	e.ids(l.Replicas)
}

func (e *encoder) node(w *world, p int) {
	n := &w.nodes[p]
	now := w.clock(p)
	e.num(int(n.store))
	e.flag(n.up, n.gone, n.disk.fresh)
	e.unit(n.disk.unit)
	e.ledger(n.disk.ledger)
	e.num(int(n.disk.urls))
	if !n.up {
		return
	}
	e.unit(n.unit)
	e.ledger(n.ledger)
	e.lease(nil)
	e.age(now, n.quorum.Since)
	for _, a := range n.quorum.Acks {
		e.member(a.By)
		e.age(now, a.Sent)
		e.num(int(a.Seq))
	}
	e.num(-9)
	e.age(now, n.started)
	for i, t := range n.heard {
		e.flag(t > n.started)
		if t > n.started {
			e.age(now, t)
		}
		e.num(int(n.copied[i]))
	}
}

func (e *encoder) message(w *world, x message) {
	e.num(x.from, x.to, int(x.what), int(x.urls))
	e.flag(x.whole)
	e.member(x.member)
	e.record(x.record)
	e.lease(x.lease)
	switch x.what {
	case aRequest:
		q := x.request
		e.num(int(q.Topic), int(q.Seq))
		e.record(q.Record)
		e.flag(q.Near)
		e.ballot(q.Ballot)
		e.lease(q.Lease)
		e.age(w.clock(x.from), q.Sent)
		e.ids(q.Replicas)
	case aReply:
		r := x.reply
		e.num(int(r.Topic), int(r.Refusal), int(r.Seq))
		e.b = append(e.b, r.Prev[:6]...)
		e.ballot(r.Ballot)
		e.ballot(r.Signed)
		e.lease(r.Lease)
		e.record(r.Record)
		e.flag(r.Voted)
		e.age(w.clock(x.to), r.Sent)
	}
}

// hash returns 64 bits of the world's encoding.
func (w *world) hash(e *encoder) uint64 {
	e.b = e.b[:0]
	for p := range w.nodes {
		e.node(w, p)
	}
	for _, list := range [][]message{w.net, w.late} {
		e.num(len(list))
		for _, x := range list {
			e.message(w, x)
		}
	}
	for _, r := range w.dht {
		e.record(r)
	}
	for p := range w.cut {
		e.flag(w.cut[p][:]...)
	}
	l := w.left
	for _, v := range []int8{l.Faults, l.Ticks, l.Leaps, l.Writes, l.Moves, l.Copies, l.Attempts,
		l.Claims, l.Lies, l.Renewals, int8(w.acked), int8(w.served)} {
		e.b = append(e.b, byte(v))
	}
	e.flag(w.waived, w.lost)
	for _, s := range w.successor {
		e.b = append(append(e.b, s.prev[:4]...), s.next[:4]...)
	}
	for _, x := range w.signed {
		e.num(x.by)
		e.ballot(x.ballot)
		e.b = append(e.b, x.lease[:4]...)
	}
	h := uint64(14695981039346656037) // FNV-1a, mixed as in MurmurHash3
	for _, b := range e.b {
		h = (h ^ uint64(b)) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
