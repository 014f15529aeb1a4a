package hostmove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/overlay/record/recordtest"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

var folk = overlaytest.Identities(6, 3, func(id peer.ID, key crypto.PrivKey) someone {
	return someone{id, key}
})

var (
	oldAddr, newAddr = netip.MustParseAddr("203.0.113.4"), netip.MustParseAddr("198.51.100.4")
	oldNet, newNet   = store.SubnetOf(oldAddr), store.SubnetOf(newAddr)
)

const mover = "mover.test"

// newDHT is a DHT for leases and homes.
func newDHT() *recordtest.DHT {
	return recordtest.New(record.NamespacedValidator{
		lease.Namespace: lease.Validator{}, home.Namespace: home.Validator{},
	}, 3)
}

// member is a Monitor with all that it needs. Everything of it belongs into a bubble
// of testing/synctest.
type member struct {
	*Monitor
	t   *testing.T
	dht *recordtest.DHT
	own *subnets
	f   *frontier

	online func() bool // nil: always
	apart  peer.ID     // was away when the known lease came to be

	mu    sync.Mutex
	names map[string][]netip.Addr
	dead  map[netip.Addr]bool // addresses that accept no connection
}

// join makes a peer in dht on the store db, or on a new one.
func join(
	t *testing.T, me someone, dht *recordtest.DHT, db *store.DB, carrier Transferrer,
) *member {
	t.Helper()
	if db == nil {
		db = overlaytest.Store(t, "")
	}
	m := &member{t: t, dht: dht, names: map[string][]netip.Addr{}}
	values := dht.Peer()
	lc := lease.DefaultConfig()
	lc.Self, lc.Key, lc.Values, lc.Settle = me.id, me.key, values, 0
	lc.Judge = lease.NewJudge(lc.Clock, contacts{m})
	leases, err := lease.NewRegistry(lc)
	if err != nil {
		t.Fatal(err)
	}
	hc := home.DefaultConfig()
	hc.Self, hc.Key, hc.Values, hc.Settle = me.id, me.key, values, 0
	homes, err := home.NewRegistry(hc)
	if err != nil {
		t.Fatal(err)
	}
	m.own = &subnets{leases: leases, sealed: map[netip.Prefix][]byte{},
		inside: map[netip.Prefix]int{}}
	m.f = &frontier{hosts: map[string]store.Host{}, held: map[string]time.Time{}}
	m.Monitor, err = New(Config{
		Self: me.id, DB: db, Subnets: m.own, Homes: homes, Leases: leases, Transferrer: carrier,
		Network: m, Guard: m,
		Tick: time.Second, Logger: overlaytest.Log(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error { m.f.hosts[h.Name] = h; return nil })
	})
	if err == nil {
		err = m.Attach(m.f)
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// contacts is a lease.Contacts.
type contacts struct{ m *member }

func (c contacts) Silent(peer.ID, time.Time, time.Time) bool { return true }
func (c contacts) Apart(p peer.ID, _ time.Time) bool         { return p == c.m.apart }
func (c contacts) Joined(_, _ peer.ID) bool                  { return false }
func (c contacts) Nearest(netip.Prefix) []peer.ID            { return nil }

func (m *member) Check(netip.Addr) error { return nil }
func (m *member) Online() bool           { return m.online == nil || m.online() }

func (m *member) Lookup(_ context.Context, host string) ([]netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.names[host]; len(a) > 0 {
		return a, nil
	}
	return nil, errors.New("no such name")
}

func (m *member) Reach(_ context.Context, _ string, addrs []netip.Addr) (netip.Addr, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range addrs {
		if !m.dead[a] {
			return a, true
		}
	}
	return netip.Addr{}, false
}

// run runs the Monitor until the test ends.
func (m *member) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error)
	go func() { ran <- m.Run(ctx) }()
	m.t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			m.t.Error(err)
		}
	})
}

func (m *member) say(host string, addrs ...netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.names[host] = addrs
}

// kill makes these the addresses that accept no connection.
func (m *member) kill(addrs ...netip.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dead = map[netip.Addr]bool{}
	for _, a := range addrs {
		m.dead[a] = true
	}
}

func (m *member) claim(p netip.Prefix) {
	m.t.Helper()
	if err := m.own.Claim(m.t.Context(), p); err != nil {
		m.t.Fatal(err)
	}
}

// settle makes mover a host of ours with n URLs.
func (m *member) settle(n int) {
	m.t.Helper()
	m.claim(oldNet)
	m.say(mover, oldAddr)
	if p, err := m.cfg.Homes.Settle(m.t.Context(), mover, oldNet); err != nil || p != oldNet {
		m.t.Fatal(p, err)
	}
	m.Settled(mover)
	err := m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.PutHost(store.Host{Name: mover, Subnet: oldNet, Addr: oldAddr})
		var err error
		for i := range n {
			if err == nil {
				_, err = tx.Push(mover,
					store.Entry{URL: store.URL(fmt.Sprintf("http://%s/%d", mover, i))}, 0)
			}
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	m.f.AdoptHost(store.Host{Name: mover, Subnet: oldNet, Addr: oldAddr}, time.Now())
}

// stored returns a host's record and how many URLs are queued; ok is false if there
// is none.
func (m *member) stored(host string) (h store.Host, queued int, ok bool) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		rec, err := tx.Host(host)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			h, ok = *rec, true
			err = tx.Queue(host, nil, func(store.Entry) (bool, error) {
				queued++
				return true, nil
			})
		}
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return h, queued, ok
}

func (m *member) intents() (n int) {
	m.t.Helper()
	err := m.cfg.DB.View(func(tx *store.Tx) error {
		return tx.EachData(moveSpace, func(string, []byte) (bool, error) { n++; return true, nil })
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return n
}

// home reads where a host is to be, as any other peer sees it.
func (m *member) home(host string) home.Record {
	m.t.Helper()
	cfg := home.DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values = folk[2].id, folk[2].key, m.dht.Peer()
	g, err := home.NewRegistry(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	r, err := g.Read(m.t.Context(), host)
	if err != nil {
		m.t.Fatal(err)
	}
	return r
}

// failingPuts is a DHT that can only be read.
type failingPuts struct {
	*recordtest.Peer
	puts int
}

func (f *failingPuts) Put(context.Context, string, []byte) (acks, rejects int, err error) {
	f.puts++
	return 0, 0, errors.New("no peer answers")
}

// subnets is a Subnets.
type subnets struct {
	leases *lease.Registry

	mu       sync.Mutex
	sealed   map[netip.Prefix][]byte
	inside   map[netip.Prefix]int // AdoptHost without leave
	rerouted []string             // hosts that were rerouted
	refuse   error                // what Claim returns, if not nil
	claims   int                  // calls of Claim
	unsafe   bool                 // what is stored is not at the replicas
}

func (s *subnets) Lease(p netip.Prefix) ([]byte, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sealed, ours := s.sealed[p]
	return sealed, ours
}

func (s *subnets) Enter(p netip.Prefix) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed[p] == nil {
		return nil, false
	}
	s.inside[p]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.inside[p]--
	}, true
}

func (s *subnets) Safe(context.Context, netip.Prefix) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unsafe
}

func (s *subnets) setUnsafe(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unsafe = yes
}

func (s *subnets) Claim(ctx context.Context, p netip.Prefix) error {
	s.mu.Lock()
	s.claims++
	refuse := s.refuse
	s.mu.Unlock()
	if refuse != nil {
		return refuse
	}
	_, sealed, err := s.leases.Claim(ctx, p)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed[p] = sealed
	return nil
}

func (s *subnets) RefreshOwner(
	ctx context.Context, p netip.Prefix, owner peer.ID, _ bool,
) (bool, error) {
	l, _, err := s.leases.Refresh(ctx, p)
	return err == nil && l.Owner != owner, err
}

func (s *subnets) Route([]store.Pending) error { return nil }

func (s *subnets) Reroute(h store.Host) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rerouted = append(s.rerouted, h.Name)
	return nil
}

// entered returns how many are inside a subnet.
func (s *subnets) entered(p netip.Prefix) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside[p]
}

// frontier is a Frontier.
type frontier struct {
	mu    sync.Mutex
	hosts map[string]store.Host
	held  map[string]time.Time
	stale []string // what Stale returns once
	asked bool     // SetHostAddr is refused: the host is being asked
}

func (f *frontier) StaleHosts(time.Time, int) (names []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	names, f.stale = f.stale, nil
	return names
}

func (f *frontier) HostAddr(host string) (netip.Prefix, netip.Addr, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.hosts[host]
	return h.Subnet, h.Addr, ok
}

func (f *frontier) DelayHost(host string, until time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held[host] = until
}

func (f *frontier) SetRetryAt(string, time.Time) {}

func (f *frontier) SetHostAddr(host string, a netip.Addr) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.asked {
		return false, nil
	}
	h := f.hosts[host]
	h.Addr = a
	f.hosts[host] = h
	return true, nil
}

// beAsked says whether hosts are being asked now.
func (f *frontier) beAsked(yes bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = yes
}

func (f *frontier) EvictHost(_ context.Context, host string) (time.Time, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, host)
	return time.Now().Add(time.Minute), nil
}

func (f *frontier) AdoptHost(h store.Host, _ time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hosts[h.Name] = h
}

// in says in which subnet the frontier has a host, and at which address.
func (f *frontier) in(host string) (netip.Prefix, netip.Addr) {
	p, a, _ := f.HostAddr(host)
	return p, a
}

// transferFunc is a Carrier.
type transferFunc func(ctx context.Context, to peer.ID, o hosttransfer.Offer) error

func (c transferFunc) Transfer(ctx context.Context, to peer.ID, o hosttransfer.Offer) error {
	return c(ctx, to, o)
}

func (transferFunc) TellFetched(context.Context, peer.ID, string, []byte) error { return nil }
