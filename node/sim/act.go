package sim

import (
	"net/netip"
	"slices"
	"time"

	"peerd/node/sim/fabric"
	"peerd/store/kv"
)

// act is something to do at a time.
type act struct {
	at time.Duration // since the crawl was seeded
	do func()
}

// acts are what a fault does, and undoes.
func (w *world) acts(f Fault) []act {
	var m *machine
	if len(f.Peers) > 0 {
		m = w.machines[f.Peers[0]]
	}
	begin := func(do func()) act {
		return act{f.At, func() { w.note(nil, "%v", f); do() }}
	}
	end := func(do func()) act {
		return act{f.At + f.For, func() { w.note(nil, "over: %s of %v", f.Kind, f.Peers); do() }}
	}
	restart := end(func() { w.start(m) })
	switch f.Kind {
	case Kill:
		return []act{begin(func() { m.kill(fabric.Reset, m.disk.Kill) }), restart}
	case Power:
		return []act{begin(func() {
			m.kill(fabric.Silent, func() {
				kept, lost := m.disk.Crash(f.Dice)
				w.note(m, "has lost %d commits of %d", lost, kept+lost)
			})
		}), restart}
	case Loss:
		return []act{begin(func() { m.lost = true; m.kill(fabric.Silent, m.disk.Wipe) })}
	case Wiped:
		return []act{begin(func() { m.kill(fabric.Silent, m.disk.Wipe) }), restart}
	case Leave:
		return []act{begin(func() { w.leave(m, f.For) }), end(func() {})}
	case Move:
		return []act{begin(func() { w.move(f.Sites[0], f.Sites[1]) }), end(func() { w.unserve(f.Sites[0]) })}
	case Lossy:
		return []act{begin(func() { w.lossy(m, f.Share) }), end(func() { w.lossy(m, 0) })}
	case Pause:
		return []act{
			begin(func() { w.freeze(m, true) }),
			end(func() { w.freeze(m, false) }),
		}
	case Offline:
		return []act{begin(func() { w.offline(m, w.fabric.Cut) }), end(func() { w.offline(m, w.fabric.Mend) })}
	case Split, OneWay, Long:
		return []act{begin(func() { w.part(f, w.fabric.Cut) }), end(func() { w.part(f, w.fabric.Mend) })}
	case Slow:
		return []act{begin(func() { w.slow(m, f.By) }), end(func() { w.slow(m, 0) })}
	case Drop:
		return []act{begin(func() { w.drop(m) })}
	case Full:
		return []act{begin(func() { m.disk.SetFull(true) }), end(func() { m.disk.SetFull(false) })}
	case Crawls:
		slow := kv.Delays{Sync: 700 * time.Millisecond}
		return []act{begin(func() { m.disk.SetDelays(slow) }), end(func() { m.disk.SetDelays(kv.Delays{}) })}
	}
	panic("sim: a fault of no kind")
}

// freeze stops what a peer hears and says, and its syncs. Its commits and reads
// go on: the DHT's library holds a mutex over them, and virtual time stands still
// while anybody waits for a mutex whose holder waits for time.
func (w *world) freeze(m *machine, on bool) {
	if on {
		w.fabric.Freeze(m.addr)
		m.disk.SetDelays(kv.Delays{Sync: time.Minute})
		return
	}
	w.fabric.Thaw(m.addr)
	m.disk.SetDelays(kv.Delays{})
}

// offline does something to all ways from and to a peer.
func (w *world) offline(m *machine, do func(from, to netip.Addr)) {
	for _, a := range w.all(m) {
		do(m.addr, a)
		do(a, m.addr)
	}
}

// part does something to all ways from the peers of f to the others, and back if
// it is a Split or a Long.
func (w *world) part(f Fault, do func(from, to netip.Addr)) {
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

// all are the addresses of all others, peers and sites.
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
	w.note(m, "has lost %d connections", n)
}

// lossy loses a share of all from and to a peer.
func (w *world) lossy(m *machine, share float64) {
	for _, a := range w.all(m) {
		w.fabric.Lossy(m.addr, a, share)
		w.fabric.Lossy(a, m.addr, share)
	}
}

// leave lets a peer hand everything over and end, and starts it again after a while.
func (w *world) leave(m *machine, back time.Duration) {
	if !m.running() {
		return
	}
	m.away = time.Now().Add(back)
	m.node.StopDrained(leaveWithin)
}

// move puts a site onto the servers of another: names say so at once. It goes on
// answering where it was, until unserve.
func (w *world) move(site, to int) {
	host := w.web.Sites()[site].Host
	w.names.Lock()
	w.hosts[host] = w.layout.SiteAddrs[to]
	w.names.Unlock()
	w.note(nil, "%s is at %v now, and was at %v", host, w.layout.SiteAddrs[to], w.layout.SiteAddrs[site])
}

// unserve silences the servers of a site that has moved.
func (w *world) unserve(site int) {
	for _, a := range w.layout.SiteAddrs[site] {
		w.fabric.Freeze(a)
	}
}
