package sim

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/lab/sim/fabric"
	"peerd/store/kv"
)

// action is a function to call at a given time.
type action struct {
	at time.Duration // since the crawl was seeded
	do func()
}

// acts returns the actions that apply and revert f.
func (w *world) acts(f Fault) []action {
	var m *machine
	if len(f.Peers) > 0 {
		m = w.machines[f.Peers[0]]
	}
	begin := func(do func()) action {
		return action{f.At, func() { w.note(nil, "%v", f); do() }}
	}
	end := func(do func()) action {
		return action{f.At + f.For, func() {
			w.note(nil, "ended: %s of %v", f.Kind, f.Peers)
			do()
		}}
	}
	restart := end(func() { w.start(m) })
	switch f.Kind {
	case Kill:
		return []action{begin(func() { m.kill(fabric.Reset, m.disk.Kill) }), restart}
	case Power:
		return []action{begin(func() {
			m.kill(fabric.Silent, func() {
				kept, lost := m.disk.Crash(f.Dice)
				w.note(m, "lost %d of %d commits", lost, kept+lost)
			})
		}), restart}
	case Loss:
		return []action{begin(func() { m.lost = true; m.kill(fabric.Silent, m.disk.Wipe) })}
	case Wiped:
		return []action{begin(func() { m.kill(fabric.Silent, m.disk.Wipe) }), restart}
	case Leave:
		return []action{begin(func() { w.leave(m, f.For) }), end(func() {})}
	case Move:
		return []action{begin(func() { w.move(f.Sites[0], f.Sites[1]) }),
			end(func() { w.stopServing(f.Sites[0]) })}
	case Lossy:
		return []action{begin(func() { w.lossy(m, f.Share) }), end(func() { w.lossy(m, 0) })}
	case Pause:
		return []action{
			begin(func() { w.freeze(m, true) }),
			end(func() { w.freeze(m, false) }),
		}
	case Offline:
		return []action{begin(func() { w.offline(m, w.fabric.Cut) }),
			end(func() { w.offline(m, w.fabric.Heal) })}
	case Split, OneWay, LongSplit:
		return []action{begin(func() { w.partition(f, w.fabric.Cut) }),
			end(func() { w.partition(f, w.fabric.Heal) })}
	case Slow:
		return []action{begin(func() { w.slow(m, f.By) }), end(func() { w.slow(m, 0) })}
	case Drop:
		return []action{begin(func() { w.drop(m) })}
	case Full:
		return []action{begin(func() { m.disk.SetFull(true) }),
			end(func() { m.disk.SetFull(false) })}
	case SlowDisk:
		slow := kv.Delays{Sync: 700 * time.Millisecond}
		return []action{begin(func() { m.disk.SetDelays(slow) }),
			end(func() { m.disk.SetDelays(kv.Delays{}) })}
	}
	panic(fmt.Sprintf("sim: unknown kind of fault %d", f.Kind))
}

// freeze stops or resumes a peer's network traffic and syncs. Its commits and reads
// continue: the DHT library holds a mutex during them, and virtual time does not
// advance while a goroutine waits for a mutex that a sleeping goroutine holds.
func (w *world) freeze(m *machine, on bool) {
	if on {
		w.fabric.Freeze(m.addr)
		m.disk.SetDelays(kv.Delays{Sync: time.Minute})
		return
	}
	w.fabric.Unfreeze(m.addr)
	m.disk.SetDelays(kv.Delays{})
}

// offline applies do to both directions of every link of m.
func (w *world) offline(m *machine, do func(from, to netip.Addr)) {
	for _, a := range w.all(m) {
		do(m.addr, a)
		do(a, m.addr)
	}
}

// partition applies do to all links from the peers of f to the others; for Split and
// LongSplit, also to the links in the opposite direction.
func (w *world) partition(f Fault, do func(from, to netip.Addr)) {
	for _, a := range f.Peers {
		for b := range w.machines {
			if slices.Contains(f.Peers, b) {
				continue
			}
			do(w.machines[a].addr, w.machines[b].addr)
			if f.Kind != OneWay {
				do(w.machines[b].addr, w.machines[a].addr)
			}
		}
	}
}

// all returns the addresses of all peers but m and of all sites.
func (w *world) all(m *machine) []netip.Addr {
	all := w.siteAddrs()
	for _, o := range w.machines {
		if o != m {
			all = append(all, o.addr)
		}
	}
	return all
}

func (w *world) slow(m *machine, by time.Duration) {
	for _, a := range w.all(m) {
		w.fabric.Slow(m.addr, a, by)
		w.fabric.Slow(a, m.addr, by)
	}
}

func (w *world) drop(m *machine) {
	n := 0
	for _, a := range w.all(m) {
		n += w.fabric.Drop(m.addr, a)
	}
	w.note(m, "lost %d connections", n)
}

// lossy sets the share of segments to and from m that are lost.
func (w *world) lossy(m *machine, share float64) {
	for _, a := range w.all(m) {
		w.fabric.Lossy(m.addr, a, share)
		w.fabric.Lossy(a, m.addr, share)
	}
}

// leave lets m hand over everything and exit; it is restarted after back.
func (w *world) leave(m *machine, back time.Duration) {
	if !m.running() {
		return
	}
	m.awayUntil = time.Now().Add(back)
	m.node.StopDrained(leaveTimeout)
}

// move changes the addresses of a site to those of another. The old servers keep
// answering until stopServing.
func (w *world) move(site, to int) {
	host := w.web.Sites()[site].Host
	w.names.Lock()
	w.hosts[host] = w.layout.SiteAddrs[to]
	w.names.Unlock()
	w.note(nil, "moved %s from %v to %v", host, w.layout.SiteAddrs[site],
		w.layout.SiteAddrs[to])
}

// stopServing stops the old servers of a site that has moved.
func (w *world) stopServing(site int) {
	for _, a := range w.layout.SiteAddrs[site] {
		w.fabric.Freeze(a)
	}
}
