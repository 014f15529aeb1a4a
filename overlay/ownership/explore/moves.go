package explore

import (
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
)

// A move is one thing that can happen in a world. do changes a copy of it.
type move struct {
	text string
	do   func(*world)
}

// moves lists what can happen. While messages are on their way the first one arrives, is
// lost, delayed or duplicated, or its receiver crashes: deliveries to different peers
// commute, and any other order is a delay.
func (m *model) moves(w *world) (list []move) {
	add := func(do func(*world), format string, args ...any) {
		list = append(list, move{fmt.Sprintf(format, args...), do})
	}
	if len(w.net) > 0 {
		m.deliveries(w, add)
		return list
	}
	for p := range w.nodes {
		if n := &w.nodes[p]; n.up {
			m.ownerMoves(w, p, add)
			m.otherMoves(w, p, add)
		} else if !n.gone {
			add(func(w *world) { m.start(w, p) }, "%v starts", n)
		}
	}
	for i, x := range w.late {
		add(func(w *world) {
			w.late = slices.Delete(slices.Clone(w.late), i, i+1)
			w.net = []message{x}
		}, "delayed %v arrives", x)
	}
	if w.left.Ticks > 0 {
		add(func(w *world) { w.left.Ticks--; m.pass(w) }, "time passes")
	}
	if w.left.Leaps > 0 {
		add(func(w *world) { w.left.Leaps--; m.leap(w) }, "hours pass")
	}
	if w.cut != [peers][peers]bool{} {
		add(func(w *world) { w.cut = [peers][peers]bool{} }, "the network heals")
	}
	if w.left.Faults > 0 {
		m.faults(w, add)
	}
	return list
}

type adder func(do func(*world), format string, args ...any)

// pass lets time pass by one tick; owners send heartbeats.
func (m *model) pass(w *world) {
	w.now += tick
	for i := range w.cut {
		for j := range w.cut {
			w.since(i, j)
		}
	}
	m.settle(w)
	m.beat(w)
}

// leap lets hours pass.
func (m *model) leap(w *world) {
	w.now += leap
	for i := range w.nodes {
		w.nodes[i].disk.fresh = w.nodes[i].disk.fresh && !w.nodes[i].up
	}
	m.pass(w)
}

// since waives the rule of one owner in a network of two that was cut for too long.
func (w *world) since(i, j int) {
	if w.nodes[2].gone && w.cut[i][j] && w.now-w.cutAt >= ownership.AloneAfter*4/5 {
		w.waived = true
	}
}

// disturbs reports whether anything but its delivery can happen to a message now.
func (m *model) disturbs(w *world) bool {
	return w.left.Faults > 0 && m.Kinds&(Lose|Delay|Repeat|Crash) != 0
}

func (m *model) deliveries(w *world, add adder) {
	x := w.net[0]
	rest := func(w *world) { w.net = slices.Clone(w.net[1:]) }
	probe := *w
	rest(&probe)
	actions := m.deliver(&probe, x, none)
	add(func(w *world) { rest(w); m.deliver(w, x, none) }, "%v arrives", x)
	fault := func(kind Fault, do func(*world), text string) {
		if w.left.Faults > 0 && m.Kinds&kind != 0 {
			add(func(w *world) { w.left.Faults--; rest(w); do(w) }, "%v "+text, x)
		}
	}
	later := func(w *world) { w.late = append(slices.Clip(w.late), x) }
	fault(Lose, func(*world) {}, "is lost")
	fault(Delay, later, "is delayed")
	fault(Repeat, func(w *world) { later(w); m.deliver(w, x, none) }, "arrives, and again later")
	if !w.nodes[x.to].up {
		return
	}
	fault(Crash, func(w *world) { w.crash(x.to, false) }, "arrives after a crash")
	for i := 1; i < actions; i++ {
		fault(Crash, func(w *world) { m.deliver(w, x, i) }, "arrives, crash between actions")
	}
}

// event adds a step of a peer's unit, and a crash after each of its actions.
func (m *model) event(w *world, p int, add adder, pay func(*budget), e ownership.Event) {
	probe := *w
	actions := m.step(&probe, p, e, none)
	text := fmt.Sprintf("%v: %v", &w.nodes[p], e.Kind)
	if e.Peer.ID != "" {
		text += " " + string(e.Peer.ID)
	}
	add(func(w *world) { pay(&w.left); m.step(w, p, e, none) }, "%s", text)
	for i := 1; i < actions && w.left.Faults > 0 && m.Kinds&Crash != 0; i++ {
		add(func(w *world) { pay(&w.left); w.left.Faults--; m.step(w, p, e, i) },
			"%s, crash after %d actions", text, i)
	}
}

func free(*budget) {}

func (m *model) ownerMoves(w *world, p int, add adder) {
	n := &w.nodes[p]
	u := n.unit
	working := u.State == ownership.Owned || u.State == ownership.Deciding
	if u.State == ownership.Deciding {
		m.event(w, p, add, free, ownership.Event{Kind: ownership.Decided, Peer: n.self()})
	}
	if w.left.Writes > 0 && m.rules.MayFetch(u, n.quorum, w.clock(p)) {
		add(func(w *world) { w.left.Writes--; m.write(w, p) }, "%v finds a URL", n)
	}
	for i := range w.nodes {
		if i != p {
			m.replicaMoves(w, p, i, working, add)
		}
	}
	if working && u.Ask.Phase == ownership.Idle && w.left.Renewals > 0 {
		m.event(w, p, add, func(b *budget) { b.Renewals-- },
			ownership.Event{Kind: ownership.WitnessesChosen})
	}
}

// replicaMoves adds what an owner does with another peer.
func (m *model) replicaMoves(w *world, p, i int, working bool, add adder) {
	n, x := &w.nodes[p], &w.nodes[i]
	counted := slices.Contains(n.unit.Replicas, x.id)
	e := ownership.Event{Peer: x.self()}
	switch {
	case w.left.Copies == 0:
	case working && !counted && x.up:
		add(func(w *world) { w.left.Copies--; m.follow(w, p, i) }, "%v copies to %v", n, x)
	case counted && (!x.up || w.cut[p][i] || w.cut[i][p]):
		e.Kind = ownership.ReplicaLost
		m.event(w, p, add, func(b *budget) { b.Copies-- }, e)
	}
	if working && counted && w.left.Moves > 0 {
		e.Kind = ownership.Decided
		m.event(w, p, add, func(b *budget) { b.Moves-- }, e)
	}
}

// write adds a URL to the owner's disk and sends it to its replicas.
func (m *model) write(w *world, p int) {
	n := &w.nodes[p]
	url := w.served + 1
	w.served |= url
	n.disk.urls |= url
	for _, id := range n.unit.Replicas {
		w.send(message{from: p, to: index(id), what: aCopy, lease: n.unit.Lease(), urls: url})
	}
}

// follow sends a copy of everything to a peer.
func (m *model) follow(w *world, p, to int) {
	n := &w.nodes[p]
	w.send(message{from: p, to: to, what: aCopy, record: n.unit.Record, lease: n.unit.Lease(),
		urls: n.disk.urls})
}

func (m *model) otherMoves(w *world, p int, add adder) {
	n := &w.nodes[p]
	u := n.unit
	if rec := w.read(p); rec != nil {
		m.event(w, p, add, free, ownership.Event{Kind: ownership.Seen, Record: rec})
	}
	if u.State == ownership.None && u.Lease() == nil && w.left.Claims > 0 {
		m.event(w, p, add, func(b *budget) { b.Claims-- },
			ownership.Event{Kind: ownership.Wanted})
	}
	if w.left.Lies > 0 && m.Liar == p {
		m.lies(w, p, add)
	}
	if u.State == ownership.Electing && m.hears(w, p) {
		m.event(w, p, add, free, ownership.Event{Kind: ownership.OwnerHeard})
	}
	if w.left.Attempts > 0 {
		for _, k := range m.attempts(w, p) {
			m.event(w, p, add, func(b *budget) { b.Attempts-- }, ownership.Event{Kind: k})
		}
	}
}

// read returns a record in the DHT that is news for a peer.
func (w *world) read(p int) ownership.Record {
	known := w.nodes[p].unit.Lease()
	for i, rec := range w.dht {
		if l := rec.Newest(); l != nil && l.ID() != known.ID() && w.reaches(p, i) &&
			(known == nil || l.Epoch >= known.Epoch) {
			return rec
		}
	}
	return nil
}

// attempts lists the events by which a peer tries to change the owner.
func (m *model) attempts(w *world, p int) (list []ownership.EventKind) {
	u := w.nodes[p].unit
	hears := m.hears(w, p)
	if u.Ask.Phase != ownership.Idle || u.State == ownership.Ceded ||
		u.Reasons&ownership.Proposed != 0 {
		list = append(list, ownership.Retried)
	}
	switch {
	case hears:
	case u.State == ownership.Replica, u.State == ownership.Ceded,
		m.Recreate && u.State == ownership.None:
		list = append(list, ownership.OwnerSilent)
	case w.left.Leaps < m.Budget.Leaps && u.State == ownership.Orphaned:
		list = append(list, ownership.OwnerLost)
	}
	if (!hears || u.State == ownership.Suspended) && m.lost(w, p) {
		list = append(list, ownership.WitnessesLost)
	}
	return list
}

// hears reports whether a peer has signs of life of the owner that it knows.
func (m *model) hears(w *world, p int) bool {
	l := w.nodes[p].unit.Lease()
	if l == nil {
		return true
	}
	i := index(l.Owner.ID)
	n := &w.nodes[i]
	if !n.up || w.cut[i][p] || n.store != l.Owner.Store {
		return false
	}
	if i == p {
		return true
	}
	return w.nodes[p].heard[i] <= w.nodes[p].started ||
		w.clock(p)-w.nodes[p].heard[i] < ownership.Promise
}

// lost reports whether so many witnesses are gone for good, or have lost their disks, that no
// certificate can be made.
func (m *model) lost(w *world, p int) bool {
	l := w.nodes[p].unit.Lease()
	if l == nil || w.left.Leaps == m.Budget.Leaps {
		return false
	}
	gone := 0
	for _, x := range l.Witnesses {
		if n := &w.nodes[index(x.ID)]; n.gone || n.store != x.Store {
			gone++
		}
	}
	return len(l.Witnesses)-gone < ownership.Need(len(l.Witnesses))
}

func (m *model) faults(w *world, add adder) {
	fault := func(kind Fault, n *node, do func(*world), text string) {
		if m.Kinds&kind != 0 {
			add(func(w *world) { w.left.Faults--; do(w) }, "%v "+text, n)
		}
	}
	for p := range w.nodes {
		n := &w.nodes[p]
		if n.gone {
			continue
		}
		if n.up {
			fault(Crash, n, func(w *world) { w.crash(p, false) }, "crashes")
			fault(Gone, n, func(w *world) { w.crash(p, true); w.nodes[p].gone = true }, "is gone")
		}
		fault(LoseDisk, n, func(w *world) { w.crash(p, true) }, "loses its disk")
		if w.cut != [peers][peers]bool{} {
			continue
		}
		for mode, text := range []string{"is cut off", "is not heard", "hears nothing"} {
			fault(Cut, n, func(w *world) { w.isolate(p, mode != 2, mode != 1) }, text)
		}
	}
	for i := range w.dht {
		if a, b := w.dht[i].Newest(), w.dht[1-i].Newest(); a != nil && m.Kinds&DHT != 0 &&
			a.ID() == b.ID() && a.Epoch > 1 {
			add(func(w *world) { w.left.Faults--; w.dht[i] = w.dht[i][:len(w.dht[i])-1] },
				"replica %d of the DHT lacks the newest lease", i)
		}
	}
}

// isolate cuts the links from or to a peer.
func (w *world) isolate(p int, from, to bool) {
	w.cutAt = w.now
	for i := range w.nodes {
		w.cut[p][i], w.cut[i][p] = i != p && from, i != p && to
	}
}

// lies adds what a witness that lies can send to the other peers.
func (m *model) lies(w *world, p int, add adder) {
	n := &w.nodes[p]
	known := w.dht[1].Newest()
	if known == nil {
		return
	}
	for i := range w.nodes {
		if i == p || !w.nodes[i].up {
			continue
		}
		for _, f := range m.forgeries(w, p, known) {
			add(func(w *world) {
				w.left.Lies--
				w.net = []message{{from: p, to: i, what: aRecord, record: f.record}}
			}, "%v sends %s to %v", n, f.text, &w.nodes[i])
		}
		re := ownership.Reply{Topic: ownership.Heartbeat, By: n.self(), Prev: known.ID(),
			Voted: true}
		add(func(w *world) {
			w.left.Lies--
			w.net = []message{{from: p, to: i, what: aReply, reply: re, member: n.self()}}
		}, "%v says that it has voted to %v", n, &w.nodes[i])
	}
}

// forgeries returns records by which a peer says that it is the owner.
func (m *model) forgeries(w *world, p int, known *ownership.Lease) []forgery {
	n := &w.nodes[p]
	lease := func(prev *ownership.Lease, epoch uint64) *ownership.Lease {
		l, err := ownership.NewLease(ownership.Lease{Unit: unit, Epoch: epoch, Owner: n.self(),
			Kind: ownership.Takeover, Prev: prev.ID()})
		if err != nil {
			panic(err)
		}
		return l
	}
	own := ownership.Certificate{Signatures: []ownership.Signature{{By: n.self()}}}
	strangers := own
	for _, id := range []peer.ID{"X", "Y"} {
		strangers.Signatures = append(strangers.Signatures,
			ownership.Signature{By: ownership.Member{ID: id}})
	}
	base := w.dht[1]
	with := func(l *ownership.Lease, c ownership.Certificate) ownership.Record {
		return append(slices.Clip(base), ownership.Link{Lease: l, Cert: c})
	}
	return []forgery{
		{"a lease signed by itself", with(lease(known, known.Epoch+1), own)},
		{"a lease signed by strangers", with(lease(known, known.Epoch+1), strangers)},
		{"a lease from nowhere", with(lease(nil, known.Epoch+9), strangers)[len(base):]},
	}
}

type forgery struct {
	text   string
	record ownership.Record
}
