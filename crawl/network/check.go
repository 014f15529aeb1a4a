package network

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"peerd/internal/order"
)

// Evidence is what the answers to a Probe show. A greater value shows more.
type Evidence uint8

// The kinds of evidence.
const (
	// NotAsked means that there was nothing to ask.
	NotAsked Evidence = iota
	// NoAnswer means that nothing answered.
	NoAnswer
	// LocalAnswer means that something answered that also answers if no web server can be
	// reached: a gateway, or a name server that reports a failure.
	LocalAnswer
	// RemoteAnswer means that something answered that only the network can bring here.
	RemoteAnswer
)

// A Probe asks some destinations until its context ends, and returns the best Evidence.
type Probe func(ctx context.Context) Evidence

// ConnectFunc opens a connection to addr and closes it. It returns when ctx ends. Its error wraps
// syscall.ECONNREFUSED or syscall.ECONNRESET if the server answered with that.
type ConnectFunc func(ctx context.Context, addr netip.AddrPort) error

// serverPorts are the ports at which a server is asked if none is known: it accepts or refuses the
// connection.
var serverPorts = [...]uint16{443, 80}

// Servers that are asked in one check: some that answered recently, some that failed.
const (
	checkAnswered = 4
	checkFailed   = 2
)

// maxRefused is the number of checks in a row that may ask no server at all because politeness
// forbids it, before one asks leastDestinations servers in spite of that.
const maxRefused = 2

// findings are the results of one check.
type findings struct {
	best    Evidence
	refused bool                    // there are servers, but none of them could be asked
	silent  map[netip.Addr]struct{} // servers that did not answer
	probes  int                     // probes without an answer, or with less than usual
	less    bool                    // a probe shows less than usual
}

// ask runs all probes, and one for the servers, at the same time. It returns when the network
// is shown to be up, when all have ended, or after checkTimeout. Servers that politeness forbids
// to ask are asked only if always is set.
func (m *Monitor) ask(
	ctx context.Context, servers map[netip.Addr][]netip.AddrPort, always bool,
) (f findings) {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	type result struct {
		server   netip.Addr // invalid: a probe
		probe    int
		evidence Evidence
	}
	results := make(chan result)
	for addr, at := range servers {
		go func() {
			results <- result{server: addr, evidence: m.askServer(ctx, addr, at, always)}
		}()
	}
	for i, p := range m.cfg.Probes {
		go func() { results <- result{probe: i, evidence: p(ctx)} }()
	}
	f.silent = map[netip.Addr]struct{}{}
	f.refused = len(servers) > 0
	for range len(servers) + len(m.cfg.Probes) {
		r := <-results
		f.best = max(f.best, r.evidence)
		f.refused = f.refused && (!r.server.IsValid() || r.evidence == NotAsked)
		less := !r.server.IsValid() && r.evidence != NotAsked && r.evidence < m.usual[r.probe]
		switch {
		case r.evidence == RemoteAnswer:
			cancel() // the others end soon
			if !r.server.IsValid() {
				m.usual[r.probe] = RemoteAnswer
			}
		case r.evidence == NoAnswer && r.server.IsValid():
			f.silent[r.server] = struct{}{}
		case r.evidence == NoAnswer || less:
			f.probes++
			f.less = f.less || less
		}
	}
	return f
}

// askServer connects to a server if politeness allows it, or always. A connection that may have
// reached the server counts as a request.
func (m *Monitor) askServer(
	ctx context.Context, addr netip.Addr, at []netip.AddrPort, always bool,
) Evidence {
	end, ok := m.cfg.Node.Reserve(addr, always)
	if !ok {
		return NotAsked
	}
	e := connectAny(ctx, m.cfg.Connect, at, RemoteAnswer)
	end(e == RemoteAnswer || errors.Is(ctx.Err(), context.Canceled))
	return e
}

// maxLessons is how often the probes are asked what they show while the network is up.
const maxLessons = 3

// learn asks the probes what they show while the network is up, after an answer of a server. It
// stops when one has shown that, or after maxLessons.
func (m *Monitor) learn(ctx context.Context) {
	m.mu.Lock()
	due := m.lessons < maxLessons && m.answered.After(m.learned) && m.state.Status == Online
	if due {
		m.lessons, m.learned = m.lessons+1, time.Now()
	}
	m.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	shown := make([]Evidence, len(m.cfg.Probes))
	var wg sync.WaitGroup
	for i, p := range m.cfg.Probes {
		wg.Go(func() { shown[i] = p(ctx) })
	}
	wg.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, e := range shown {
		if e == RemoteAnswer {
			m.usual[i], m.lessons = e, maxLessons
		}
	}
}

// silentServers returns the number of web servers that have failed, or were silent in a check.
// m.mu is held.
func (m *Monitor) silentServers(f findings) int {
	n := len(m.failed)
	for a := range f.silent {
		if _, known := m.failed[a]; !known {
			n++
		}
	}
	if _, names := m.failed[netip.Addr{}]; names {
		n--
	}
	return n
}

// destinations returns the number of different destinations that have failed, with those of a
// check. m.mu is held.
func (m *Monitor) destinations(f findings) int {
	n := m.silentServers(f) + f.probes
	if _, names := m.failed[netip.Addr{}]; names && f.probes == 0 {
		n++ // else they were asked again
	}
	return n
}

// chooseServers returns the servers to ask in this check, each with the addresses to connect to:
// some of those that this peer may fetch from now. always is set if politeness forbade to ask any
// in the last checks.
func (m *Monitor) chooseServers() (at map[netip.Addr][]netip.AddrPort, always bool) {
	m.mu.Lock()
	answered, failed := m.servers.Keys(), make([]netip.Addr, 0, len(m.failed))
	for a := range m.failed {
		if a.IsValid() && !m.servers.Contains(a) {
			failed = append(failed, a)
		}
	}
	m.mu.Unlock()
	forbidden := func(a netip.Addr) bool { return !m.cfg.Node.MayFetch(a) }
	answered = slices.DeleteFunc(answered, forbidden)
	failed = slices.DeleteFunc(failed, forbidden)
	slices.Reverse(answered) // the most recent first
	order.SortFunc(failed, netip.Addr.Compare)

	m.mu.Lock()
	defer m.mu.Unlock()
	m.turn++
	always = m.refused == maxRefused
	some := append(rotate(answered, checkAnswered, m.turn), rotate(failed, checkFailed, m.turn)...)
	if always {
		some = some[:min(len(some), leastDestinations)]
	}
	at = map[netip.Addr][]netip.AddrPort{}
	for _, a := range some {
		if port, _ := m.servers.Peek(a); port != 0 {
			at[a] = atPorts(a, port)
		} else {
			at[a] = atPorts(a, serverPorts[:]...)
		}
	}
	return at, always
}

// rotate returns the turn'th group of n elements of all, in a circle.
func rotate(all []netip.Addr, n, turn int) []netip.Addr {
	if len(all) <= n {
		return all
	}
	some := make([]netip.Addr, n)
	for i := range some {
		some[i] = all[((turn-1)*n+i)%len(all)]
	}
	return some
}

// connectAny connects to all of addrs at the same time. It returns answered if one of them has
// accepted, refused or reset the connection, else NoAnswer.
func connectAny(
	ctx context.Context, connect ConnectFunc, addrs []netip.AddrPort, answered Evidence,
) Evidence {
	if len(addrs) == 0 {
		return NotAsked
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	results := make(chan error, len(addrs))
	for _, a := range addrs {
		wg.Go(func() { results <- connect(ctx, a) })
	}
	for range addrs {
		err := <-results
		if err == nil || errors.Is(err, syscall.ECONNREFUSED) ||
			errors.Is(err, syscall.ECONNRESET) {
			cancel()
			return answered
		}
	}
	return NoAnswer
}

// atPorts returns addr with each of the ports.
func atPorts(addr netip.Addr, ports ...uint16) []netip.AddrPort {
	all := make([]netip.AddrPort, len(ports))
	for i, p := range ports {
		all[i] = netip.AddrPortFrom(addr, p)
	}
	return all
}

// Peers returns a Probe that connects to addresses of other peers.
func Peers(connect ConnectFunc, addrs func() []netip.AddrPort) Probe {
	return func(ctx context.Context) Evidence {
		return connectAny(ctx, connect, addrs(), RemoteAnswer)
	}
}
