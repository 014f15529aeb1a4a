package network

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/internal/lru"
)

const (
	// maxFailed bounds the failed destinations that are remembered.
	maxFailed = 64
	// maxServers bounds the servers that are remembered because they answered.
	maxServers = 64
	// uplinkDestinations is the number of destinations that must have failed without an answer
	// for LocalAnswer not to count: it then shows that only the way to the gateway is up.
	uplinkDestinations = 4
	// leastDestinations is the number of destinations that must have failed for the peer to be
	// offline, unless the error is one of this machine.
	leastDestinations = 2
	// checkTimeout bounds a check.
	checkTimeout = 2 * time.Second
	// minSilence is the time without an answer after which requests in progress cause a check. It
	// doubles with each check that found that the network was not down, up to maxSilence.
	minSilence, maxSilence = 5 * time.Second, 1024 * minSilence
)

// Status is the state of the network of this peer.
type Status uint8

// The states.
const (
	Online    Status = iota // nothing shows that the network is down
	Suspected               // a check is due or in progress; counts as online
	Offline                 // nothing answers
)

// String returns the name of s.
func (s Status) String() string {
	return [...]string{"online", "suspected", "offline"}[s]
}

// State is a Status with its details.
type State struct {
	Status Status
	// Since is when the outage began (Offline), or when the last one ended; the zero time if
	// there was none.
	Since time.Time
	// Reason is why the peer is offline, in words; "" otherwise.
	Reason string
}

// A Node is the rest of this peer.
type Node interface {
	// Waiting reports whether requests to web servers are in progress: if nothing answers for
	// some time, that is evidence, too.
	Waiting() bool
	// MayFetch reports whether this peer may fetch from a web server for itself now. A check leaves
	// the other servers alone: another peer may be fetching from them.
	MayFetch(addr netip.Addr) bool
	// Reserve takes the clocks of a web server for a connection, if politeness allows one now, or
	// always. The caller then calls end, with whether the server may have noticed the connection.
	Reserve(addr netip.Addr, always bool) (end func(sent bool), ok bool)
	// Heard returns when another peer was last heard; the zero time: never.
	Heard() time.Time
	// Changed is called by Run after each change between online and offline. The next check waits
	// for it.
	Changed(now, before State)
}

// Config configures a Monitor. Zero fields mean the default.
type Config struct {
	// Connect connects to a web server; required.
	Connect ConnectFunc
	// Probes ask other destinations. They are called concurrently.
	Probes []Probe
	// Node is the rest of this peer; required.
	Node Node
	// Every is the time between two checks while offline or suspected; default 2 s. It varies
	// by a quarter.
	Every time.Duration
	// Logger gets one line when the network is lost, and one when it is back. Optional.
	Logger *slog.Logger
}

// Monitor decides whether the network is up. Its methods are safe for concurrent use; all but
// Run return at once.
type Monitor struct {
	cfg Config
	log *slog.Logger

	mu       sync.Mutex
	state    State
	failed   map[netip.Addr]struct{}         // since the last answer
	failures int                             // since the last answer
	machine  bool                            // one of them was an error of this machine
	first    time.Time                       // of these failures
	lastErr  error                           // of these failures
	checked  time.Time                       // when the last check began
	early    bool                            // while offline: check at once, something answered
	answered time.Time                       // when a web server last answered
	busy     time.Time                       // since when requests are in progress; zero: none
	quiet    int                             // checks because of silence since the last answer
	servers  *lru.Simple[netip.Addr, uint16] // those that answered, with a port if known
	turn     int                             // rotates the servers that are asked
	refused  int                             // checks in a row that could ask no server
	lessons  int                             // how often learn has asked, and
	learned  time.Time                       // when it last did

	usual []Evidence // the best of each probe so far, if it is RemoteAnswer; only Run uses it

	wakeup backoff.Wake
}

// New returns a Monitor that is online. It starts nothing.
func New(cfg Config) (*Monitor, error) {
	if cfg.Connect == nil || cfg.Node == nil {
		return nil, errors.New("network: Connect or Node is missing")
	}
	cfg.Every = cmp.Or(cfg.Every, 2*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	return &Monitor{
		cfg: cfg, log: cfg.Logger, failed: map[netip.Addr]struct{}{},
		servers: lru.NewSimple[netip.Addr, uint16](maxServers, nil),
		wakeup:  backoff.NewWake(), usual: make([]Evidence, len(cfg.Probes)),
	}, nil
}

// Online reports whether requests make sense now.
func (m *Monitor) Online() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state.Status != Offline
}

// State returns the current state.
func (m *Monitor) State() State {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state
}

// Answered reports that a web server answered.
func (m *Monitor) Answered(addr netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if addr = addr.Unmap(); addr.IsValid() {
		port, _ := m.servers.Peek(addr)
		m.servers.Add(addr, port)
	}
	if m.state.Status == Offline { // an answer may be older than the outage
		m.early = true
		m.wakeup.Signal()
		return
	}
	m.state.Status = Online
	m.forget()
	if m.answered.IsZero() {
		m.wakeup.Signal() // to learn
	}
	m.answered, m.quiet = time.Now(), 0
}

// Connected reports the port of a web server that has accepted a connection. A check connects to
// it; without it, to the ports of HTTP and HTTPS.
func (m *Monitor) Connected(addr netip.AddrPort) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers.Add(addr.Addr().Unmap(), addr.Port())
}

// Failed reports that a request to a web server failed before the server answered, or, without
// an address, a lookup of a name. An error that shows an answer, such as a refused connection,
// counts as one.
func (m *Monitor) Failed(addr netip.Addr, err error) {
	what := blameOf(err)
	switch {
	case err == nil || what == blameNothing || what == blameServer && !addr.IsValid():
		return
	case what == blameServer:
		m.Answered(addr)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failures++; m.failures == 1 {
		m.first = time.Now()
	}
	if len(m.failed) < maxFailed {
		m.failed[addr.Unmap()] = struct{}{}
	}
	m.lastErr, m.machine = err, m.machine || what == blameMachine
	if m.state.Status == Online && (m.failures > 1 || m.machine) {
		m.state.Status = Suspected
		m.wakeup.Signal()
	}
}

// forget clears what is known of failures. m.mu is held.
func (m *Monitor) forget() {
	clear(m.failed)
	m.failures, m.machine, m.lastErr, m.first = 0, false, nil, time.Time{}
}

// Run checks the network whenever that is necessary, until ctx ends. It returns nil, and leaves
// no goroutine. Without Run the peer remains online.
func (m *Monitor) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		m.learn(ctx)
		m.noticeSilence(time.Now())
		wait, due := m.untilCheck(time.Now())
		if due && wait <= 0 {
			m.check(ctx)
			continue
		}
		_ = m.wakeup.Sleep(ctx, wait)
	}
	return nil
}

// noticeSilence makes a check due if requests are in progress and nothing answers.
func (m *Monitor) noticeSilence(now time.Time) {
	waiting := m.cfg.Node.Waiting()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !waiting:
		m.busy = time.Time{}
		return
	case m.busy.IsZero():
		m.busy = now
	}
	since := m.busy
	if m.answered.After(since) {
		since = m.answered
	}
	silence := backoff.Double(minSilence, maxSilence, m.quiet)
	if m.state.Status == Online && now.Sub(since) >= silence {
		m.quiet++
		m.state.Status = Suspected
		if m.first.IsZero() {
			m.first = since
		}
	}
}

// untilCheck returns the time until the next check; due is false if none is planned, and the time
// then that until noticeSilence.
func (m *Monitor) untilCheck(now time.Time) (wait time.Duration, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.state.Status == Online:
		return minSilence / 4, false
	case m.early && now.Sub(m.checked) >= m.cfg.Every/4:
		return 0, true
	case m.early:
		return m.checked.Add(m.cfg.Every / 4).Sub(now), true
	}
	return m.checked.Add(backoff.Jitter(m.cfg.Every)).Sub(now), true
}

// check asks several destinations and changes the state accordingly.
func (m *Monitor) check(ctx context.Context) {
	servers, always := m.chooseServers()
	m.mu.Lock()
	last := m.checked
	m.checked, m.early = time.Now(), false
	if m.state.Status == Suspected {
		last = m.first
	}
	m.mu.Unlock()

	found := m.ask(ctx, servers, always)
	if m.cfg.Node.Heard().After(last) {
		found.best = RemoteAnswer
	}
	if ctx.Err() != nil {
		return
	}
	now, before, changed := m.conclude(found)
	if !changed {
		return
	}
	if now.Status == Offline {
		m.log.Warn("lost the network", "since", now.Since.Format(time.RFC3339),
			"reason", now.Reason)
	} else {
		m.log.Warn("regained the network",
			"after", now.Since.Sub(before.Since).Round(time.Millisecond))
	}
	m.cfg.Node.Changed(now, before)
}

// conclude changes the state after a check, and reports whether it has changed between online
// and offline.
func (m *Monitor) conclude(found findings) (now, before State, changed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before = m.state
	if found.refused {
		m.refused++
	} else {
		m.refused = 0
	}
	up := found.best == RemoteAnswer || found.best == LocalAnswer && !found.less &&
		m.silentServers(found) < uplinkDestinations
	switch {
	case before.Status == Online: // a server answered in the meantime
	case up && before.Status == Offline:
		m.state = State{Status: Online, Since: time.Now()}
		m.forget()
		m.answered, m.quiet = m.state.Since, 0
	case up && found.best == RemoteAnswer:
		m.state.Status = Online
		m.forget()
	case before.Status == Suspected && found.refused && !up: // asked again soon
	case up, !m.machine && m.destinations(found) < leastDestinations:
		m.state.Status = Online // what has failed still counts
	case before.Status == Suspected:
		m.state = State{Status: Offline, Since: m.first, Reason: m.reason()}
	}
	return m.state, before, (m.state.Status == Offline) != (before.Status == Offline)
}

// reason returns why the peer is offline. m.mu is held.
func (m *Monitor) reason() string {
	const nothing = "no web server, name server, gateway or peer answers"
	if m.lastErr == nil {
		return nothing
	}
	return fmt.Sprintf("%s; last error: %v", nothing, m.lastErr)
}
