package owner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/overlay/overlaytest"
	"peerd/overlay/ownership"
	"peerd/overlay/record/recordtest"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTimeout bounds every wait of a test. It only ends one that hangs: a busy machine may stand
// still for a minute.
const testTimeout = 5 * time.Minute

var until = overlaytest.Until

var (
	subnetA = netip.MustParsePrefix("203.0.113.0/24")
	addrA   = netip.MustParseAddr("203.0.113.5")
	subnetB = netip.MustParsePrefix("198.51.100.0/24")
	addrB   = netip.MustParseAddr("198.51.100.7")
)

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

// folk are the same peers in every run.
var folk = overlaytest.Identities(5, 4, func(id peer.ID, key crypto.PrivKey) someone {
	return someone{id, key}
})

var alice, bob, carol = folk[0], folk[1], folk[2]

// newDHT is a DHT for leases and homes.
func newDHT() *recordtest.DHT {
	return recordtest.New(record.NamespacedValidator{
		lease.Namespace: lease.Validator{}, home.Namespace: home.Validator{},
	}, 3)
}

// script is a Strategy that says what a function says.
type script struct {
	mu   sync.Mutex
	next func(assign.Evidence) (assign.Step, error)
	seen []assign.Evidence
}

func (*script) Name() string { return "script" }

func (s *script) Next(e assign.Evidence) (assign.Step, error) {
	s.mu.Lock()
	s.seen = append(s.seen, e)
	next := s.next
	s.mu.Unlock()
	return next(e)
}

// choose always decides for one peer, but not for one that is excluded.
func choose(who someone) func(assign.Evidence) (assign.Step, error) {
	return func(e assign.Evidence) (assign.Step, error) {
		if e.Exclude[who.id.String()] {
			return assign.Step{Choice: e.Self}, nil
		}
		return assign.Step{Choice: who.id.String()}, nil
	}
}

// probeFirst has all candidates probed in order before it decides for one.
func probeFirst(who someone) func(assign.Evidence) (assign.Step, error) {
	return func(e assign.Evidence) (assign.Step, error) {
		tried := map[string]bool{}
		for _, s := range e.Samples {
			tried[s.Peer] = true
		}
		for _, c := range e.Candidates {
			if e.CanProbe && !tried[c.ID] && !e.Exclude[c.ID] {
				return assign.Step{Probe: c.ID}, nil
			}
		}
		step, err := choose(who)(e)
		step.Proxy = &coords.Proxy{At: coords.Coordinate{Vec: []float64{1, 2, 3}}, Scale: 1,
			Samples: len(e.Samples)}
		return step, err
	}
}

// directory knows some peers.
type directory []someone

func (d directory) Candidates() []assign.Candidate {
	var all []assign.Candidate
	for _, p := range d {
		at, _ := d.At(p.id.String())
		all = append(all, assign.Candidate{ID: p.id.String(), At: at})
	}
	return all
}

func (d directory) At(who string) (coords.Coordinate, bool) {
	for i, p := range d {
		if p.id.String() == who {
			return coords.Coordinate{Vec: []float64{float64(i), 0, 0}, Error: 0.1}, true
		}
	}
	return coords.Coordinate{}, false
}

// sendFunc is a Sender.
type sendFunc func(ctx context.Context, to peer.ID, o handover.Offer,
	grant func() ([]byte, error)) ([]byte, error)

func (f sendFunc) Send(
	ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error),
) ([]byte, error) {
	return f(ctx, to, o, grant)
}

func (f sendFunc) SendGrant(
	ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error),
) ([]byte, error) {
	return f(ctx, to, o, grant)
}

// handTo hands a subnet to another Manager as the protocol does, without a stream.
func handTo(
	ctx context.Context, from peer.ID, successor *member, o handover.Offer,
	grant func() ([]byte, error),
) ([]byte, error) {
	if sealed, err := successor.arrivals.AcceptOffer(ctx, from, o); err != nil || sealed != nil {
		if err != nil {
			err = fmt.Errorf("%w: %w", handover.ErrBroken, err)
		}
		return sealed, err
	}
	g, err := grant()
	if err != nil {
		return nil, err
	}
	return successor.arrivals.TakeOwnership(ctx, from, o, g)
}

// fetchFunc is an Estimator.
type fetchFunc func(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (
	store.FetchReport, error)

func (f fetchFunc) Fetch(
	ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest,
) (store.FetchReport, error) {
	return f(ctx, to, sealed, r)
}

// member is a Manager and what it stands on.
type member struct {
	t  *testing.T
	me someone
	*Manager
	cfg      Config
	dht      *recordtest.DHT
	values   *recordtest.Peer
	frontier *fakeFrontier
	strategy *script

	// outboxMu guards what follows. It is not the table's mutex, which is mu.
	outboxMu  sync.Mutex
	routed    []store.Pending
	moved     []netip.Prefix
	announced []string
	names     map[string][]netip.Addr
	nothing   error // what Resolve returns for other names
}

// join makes a peer in dht on the store db, or on a new one. It changes the
// Config by change before the Manager is made.
func join(
	t *testing.T, me someone, dht *recordtest.DHT, db *store.DB, change func(*Config),
) *member {
	t.Helper()
	if db == nil {
		db = openStore(t)
	}
	m := &member{
		t: t, me: me, dht: dht, values: dht.Peer(), frontier: newFakeFrontier(db),
		strategy: &script{next: choose(me)},
		names:    map[string][]netip.Addr{},
		nothing:  &outbox.NameError{NotFound: true, Err: errors.New("no such host")},
	}
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Settle = me.id, me.key, m.values, 0
	leases, err := lease.NewRegistry(lc)
	if err != nil {
		t.Fatal(err)
	}
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Settle = me.id, me.key, m.values, 0
	homes, err := home.NewRegistry(hc)
	if err != nil {
		t.Fatal(err)
	}
	m.cfg = Config{
		Self: me.id, Key: me.key, DB: db, Leases: leases, Homes: homes, Outbox: m,
		Sender: sendFunc(func(context.Context, peer.ID, handover.Offer, func() ([]byte, error)) (
			[]byte, error) {
			return nil, handover.ErrBroken
		}),
		PlacementConfig: PlacementConfig{
			Directory: directory{me}, Strategy: m.strategy, DecideIdle: time.Hour,
			Estimate: fetchFunc(func(context.Context, peer.ID, []byte, store.FetchRequest) (
				store.FetchReport, error) {
				return store.FetchReport{}, estimate.ErrNotSent
			}),
		},
		HostConfig: HostConfig{
			Resolve: m.resolve, Guard: &guard{},
		},
		Limiter:  &limiter{},
		LeaseTTL: lc.TTL, Tick: 5 * time.Millisecond,
	}
	if change != nil {
		change(&m.cfg)
	}
	m.cfg.Times = m.cfg.Times.withDefaults()
	if m.cfg.ResolveFresh == nil {
		m.cfg.ResolveFresh = m.cfg.Resolve
	}
	if m.cfg.Replicas == nil {
		m.cfg.Replicas = newFakeReplicas(db)
	}
	if m.Manager, err = New(m.cfg); err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error {
			if m.Live(h.Subnet) {
				m.frontier.hosts[h.Name] = h.Subnet
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Attach(m.frontier)
	return m
}

// resolve is Config.Resolve.
func (m *member) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	if a, ok := m.names[host]; ok {
		return a, nil
	}
	return nil, m.nothing
}

// ResolveAgain implements Outbox.
func (m *member) ResolveAgain(p netip.Prefix) {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	m.moved = append(m.moved, p)
}

// Announced implements Outbox.
func (m *member) Announced(p netip.Prefix, owner peer.ID) {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	m.announced = append(m.announced, fmt.Sprint(p, " ", owner))
}

// PendingAdded implements Outbox.
func (*member) PendingAdded(map[string]int) {}

// Route implements Outbox.
func (m *member) Route(ps []store.Pending) error {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	m.routed = append(m.routed, ps...)
	return nil
}

// outboxWith is an Outbox of which a test replaces what is not nil.
type outboxWith struct {
	Outbox
	route func([]store.Pending) error
	added func(map[string]int)
}

func (o outboxWith) Route(ps []store.Pending) error {
	if o.route == nil {
		return o.Outbox.Route(ps)
	}
	return o.route(ps)
}

func (o outboxWith) PendingAdded(byHost map[string]int) {
	if o.added != nil {
		o.added(byHost)
	}
}

func openStore(t *testing.T) *store.DB { return overlaytest.Store(t, "") }

// run runs the Manager until the returned function or the test's end.
func (m *member) run() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Error(err)
		}
	})
	m.t.Cleanup(stop)
	return stop
}

func (m *member) claim(p netip.Prefix) {
	m.t.Helper()
	if err := m.claimer.Claim(m.t.Context(), p); err != nil {
		m.t.Fatal(err)
	}
}

// plant gives a host of ours n URLs in the store.
func (m *member) plant(host string, p netip.Prefix, a netip.Addr, n int) {
	m.t.Helper()
	if err := m.frontier.AddHost(host, p, a, time.Time{}); err != nil {
		m.t.Fatal(err)
	}
	err := m.cfg.DB.Update(func(tx *store.Tx) error {
		for i := range n {
			if _, err := tx.Push(host,
				store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%d", host, i))}, 0); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		m.t.Fatal(err)
	}
}

// queued returns the URLs queued at a host.
func (m *member) queued(host string) (n int) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Queue(host, nil, func(store.Entry) (bool, error) { n++; return true, nil })
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// stored returns the record of a subnet.
func (m *member) stored(p netip.Prefix) (s store.Subnet, ok bool) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) (err error) {
		s, err = tx.Subnet(p)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return s, false
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return s, true
}

// phase returns that of a subnet in memory; PhaseNone if it is not ours.
func (m *member) phase(p netip.Prefix) store.Phase {
	for _, i := range m.List() {
		if i.Prefix == p {
			return i.Phase
		}
	}
	return store.PhaseNone
}

// epoch returns that of a subnet in memory.
func (m *member) epoch(p netip.Prefix) uint64 {
	for _, i := range m.List() {
		if i.Prefix == p {
			return i.Epoch
		}
	}
	return 0
}

// told returns the subnets that ResolveAgain was called for.
func (m *member) told() []netip.Prefix {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	return slices.Clone(m.moved)
}

func (m *member) routedURLs() int {
	m.outboxMu.Lock()
	defer m.outboxMu.Unlock()
	return len(m.routed)
}

// rival publishes a lease of another peer for p at epoch 1 that beats ours.
func rival(t *testing.T, p netip.Prefix, ours someone) (by someone, sealed []byte) {
	t.Helper()
	now := time.Now()
	l := lease.Lease{Subnet: p, Epoch: 1, Issued: now, Expires: now.Add(time.Minute)}
	mine := l
	mine.Owner = ours.id
	for _, s := range folk {
		if l.Owner = s.id; s.id != ours.id && lease.Better(l, mine) > 0 {
			sealed, err := lease.SealLease(l, s.key)
			if err != nil {
				t.Fatal(err)
			}
			return s, sealed
		}
	}
	t.Skip("no peer beats this one in this subnet")
	return by, nil
}

// doubt makes a subnet one that may have been taken over, or ends that.
func (s *subnet) doubt(stale bool) {
	e := ownership.Event{Kind: ownership.Renewed}
	if stale {
		e.Kind = ownership.Suspected
	}
	s.unit, _ = s.unit.Step(e)
}

// close stops work in a subnet that is to leave for another peer. The table's mutex is held.
func (t *table) close(s *subnet, to someone) {
	t.step(s, ownership.Event{Kind: ownership.Moved, To: to.id.String()})
	t.step(s, ownership.Event{Kind: ownership.Ready})
}

// withDefaults fills in what is left zero.
func (t Times) withDefaults() Times {
	d := DefaultTimes()
	to, from := t.all(), d.all()
	for name, x := range to {
		*x = cmp.Or(*x, *from[name])
	}
	return t
}

// all returns the times by name.
func (t *Times) all() map[string]*time.Duration {
	return map[string]*time.Duration{
		"Silence": &t.Silence, "Spread": &t.Spread, "Orphan": &t.Orphan,
		"Recreate": &t.Recreate, "Lost": &t.Lost, "First": &t.First, "Flush": &t.Flush,
		"Hold": &t.Hold, "QuorumMargin": &t.QuorumMargin, "Revive": &t.Revive,
		"Unreachable": &t.Unreachable,
	}
}
