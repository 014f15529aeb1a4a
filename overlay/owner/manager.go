package owner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/estimate"
	"peerd/overlay/handover"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/store"
)

// Frontier is the part of the crawler that holds our hosts; given by
// crawl/frontier. All but AddHost and Pause only touch memory, and none calls
// the Manager: it holds its lock meanwhile.
type Frontier interface {
	AddHost(name string, subnet netip.Prefix, addr netip.Addr) error
	Owns(host string) bool
	Single(p netip.Prefix, on bool)
	Shut(p netip.Prefix)
	Pause(ctx context.Context, p netip.Prefix) error
	Resume(p netip.Prefix)
	Adopt(p netip.Prefix, hosts []store.Host, at time.Time)
	Drop(p netip.Prefix)
	Load(p netip.Prefix) (hosts int, pending int64, inFlight int, nextAt time.Time)
}

// Directory is who there is; given by overlay/peers.
type Directory interface {
	// Candidates returns the peers that may own subnets, this one included.
	Candidates() []assign.Candidate
	// At returns a peer's coordinate without its load.
	At(peer string) (coords.Coordinate, bool)
}

// Estimator has one URL fetched by another peer; given by estimate.Service,
// whose errors it returns.
type Estimator interface {
	Fetch(ctx context.Context, to peer.ID, sealed []byte, r store.FetchRequest) (store.FetchReport, error)
}

// Sender hands a subnet over; given by handover.Sender, whose errors it
// returns.
type Sender interface {
	Send(ctx context.Context, to peer.ID, o handover.Offer, grant func() ([]byte, error)) (lease []byte, err error)
}

var (
	_ Estimator = (*estimate.Service)(nil)
	_ Sender    = (*handover.Sender)(nil)
)

// Resolve returns the addresses of a host; given by crawl/resolve. It returns
// an error that wraps ErrNoHost when there is none for sure.
type Resolve func(ctx context.Context, host string) ([]netip.Addr, error)

// ErrNoHost says that a host name has no address.
var ErrNoHost = errors.New("owner: no such host")

// Config says what a Manager works with.
type Config struct {
	Self      peer.ID
	Key       crypto.PrivKey
	DB        *store.DB
	Frontier  Frontier // set by Attach
	Directory Directory
	Strategy  assign.Strategy
	Leases    *lease.Registry
	Homes     *home.Registry
	Estimate  Estimator
	Sender    Sender
	Resolve   Resolve
	// Allowed says whether an address may be dialled at all.
	Allowed func(netip.Addr) error
	// MayClaim says whether this peer may claim subnets now: not while it
	// knows of others and hears none of them.
	MayClaim func() bool
	// Moved is called when a subnet's owner has changed: URLs that wait for it
	// must be resolved anew.
	Moved func(netip.Prefix)
	// Route puts URLs back that this peer must not crawl any more.
	Route func([]store.Pending) error
	// LeaseTTL is that of Leases; a lease is renewed at a third of it.
	LeaseTTL time.Duration
	// DecideIdle is how long a subnet that is being estimated may be without
	// any URL before the choice is made from what is known.
	DecideIdle time.Duration
	// Tick is the pace of the housekeeping.
	Tick time.Duration
	// Logger is nil to discard.
	Logger *slog.Logger
}

// Validate names every fault of c.
func (c Config) Validate() error {
	var errs []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf("owner: "+format, args...))
		}
	}
	fault(c.Key == nil || !c.Self.MatchesPrivateKey(c.Key), "Key is not that of Self %v", c.Self)
	fault(c.DB == nil, "DB is missing")
	fault(c.Directory == nil, "Directory is missing")
	fault(c.Strategy == nil, "Strategy is missing")
	fault(c.Leases == nil, "Leases is missing")
	fault(c.Homes == nil, "Homes is missing")
	fault(c.Estimate == nil, "Estimate is missing")
	fault(c.Sender == nil, "Sender is missing")
	fault(c.Resolve == nil, "Resolve is missing")
	fault(c.Allowed == nil, "Allowed is missing")
	fault(c.MayClaim == nil, "MayClaim is missing")
	fault(c.Moved == nil, "Moved is missing")
	fault(c.Route == nil, "Route is missing")
	fault(c.LeaseTTL <= 0 || c.LeaseTTL > lease.MaxTTL, "LeaseTTL is %v, want up to %v", c.LeaseTTL, lease.MaxTTL)
	fault(c.DecideIdle < 0, "DecideIdle is %v, want 0 or more", c.DecideIdle)
	fault(c.Tick <= 0, "Tick is %v, want more than 0", c.Tick)
	return errors.Join(errs...)
}

// Manager holds this peer's subnets. Its methods may be called at once.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	mu      sync.Mutex // never held during I/O; the Frontier's own lock comes after it
	subnets map[netip.Prefix]*subnet

	saves sync.Mutex // one write of subnet states at a time, in order
	kick  chan struct{}
}

// New loads our subnets from the store, or returns all that is wrong with cfg.
// It starts nothing. Live must then be asked which subnets' hosts belong into
// the frontier, and Config.Frontier be set by Attach.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{cfg: cfg, started: time.Now(), log: cfg.Logger, subnets: map[netip.Prefix]*subnet{}, kick: make(chan struct{}, 1)}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	err := cfg.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(r store.Subnet) error {
			if r.Phase == store.PhaseStaged {
				return nil
			}
			s, err := fromRecord(r)
			if err != nil {
				return err
			}
			m.subnets[r.Prefix] = s
			_, err = cfg.Leases.Learn(s.sealed)
			if err != nil { // too old to count: Renew finds out whose the subnet is
				m.log.Warn("an own lease is no longer valid", "subnet", r.Prefix, "err", err)
				s.stale = true
			}
			return nil
		})
	})
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	return m, nil
}

// Live says whether a subnet's hosts are ours.
func (m *Manager) Live(p netip.Prefix) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.subnets[p] != nil
}

// Attach gives the Manager its frontier, whose hosts were loaded with Live, and
// puts every subnet there into the state that it had.
func (m *Manager) Attach(f Frontier) {
	m.cfg.Frontier = f
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, s := range m.subnets {
		if s.phase == store.PhaseDeciding {
			f.Single(p, true)
		}
		if s.phase == store.PhaseCommitting || s.stale {
			f.Shut(p)
		}
	}
}

// List returns a row a subnet.
func (m *Manager) List() []Info {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Info, 0, len(m.subnets))
	for _, s := range m.subnets {
		all = append(all, s.info())
	}
	return all
}

// Run keeps leases renewed, decisions taken and handovers going until ctx
// ends, and returns when all of these have stopped. An error is one of the
// store, and final.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := time.NewTicker(m.cfg.Tick)
	defer t.Stop()
	renewals := make(chan struct{}, 16)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		case <-m.kick:
		}
		if err := m.decideIdle(); err != nil {
			return err
		}
		for _, task := range m.toMove() {
			wg.Go(func() { task(ctx) })
		}
		for _, s := range m.toRenew(time.Now(), cap(renewals)-len(renewals)) {
			renewals <- struct{}{}
			wg.Go(func() {
				m.renew(ctx, s)
				<-renewals
			})
		}
	}
}

func (m *Manager) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// save writes the state of a subnet to the disk.
func (m *Manager) save(s *subnet) error {
	m.saves.Lock()
	defer m.saves.Unlock()
	m.mu.Lock()
	r, err := s.record()
	current := m.subnets[s.prefix] == s
	m.mu.Unlock()
	if err != nil || !current {
		return err
	}
	return m.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutSubnet(r) })
}

// toRenew returns the subnets whose lease is due, at most n.
func (m *Manager) toRenew(now time.Time, n int) []*subnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	var due []*subnet
	for _, s := range m.subnets {
		if len(due) < n && !s.renewing && !s.leaving() && !s.renewAt.After(now) {
			s.renewing = true
			due = append(due, s)
		}
	}
	return due
}

// renew signs a lease anew. Met by a better one, the subnet is yielded.
func (m *Manager) renew(ctx context.Context, s *subnet) {
	m.mu.Lock()
	l := s.lease
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	fresh, sealed, err := m.cfg.Leases.Renew(ctx, l)
	if m.renewed(s, l, fresh, sealed, err) {
		err = m.save(s)
		if err != nil {
			m.log.Error("subnet state not written", "subnet", l.Subnet, "err", err)
		}
		return
	}
	var beaten *lease.BeatenError
	if errors.As(err, &beaten) {
		m.beaten(beaten.By)
	} else if ctx.Err() == nil {
		m.log.Warn("lease not renewed; trying again", "subnet", l.Subnet, "err", err)
	}
}

// renewed enters what came of renewing the lease old, and says whether it went
// well.
func (m *Manager) renewed(s *subnet, old, fresh lease.Lease, sealed []byte, err error) bool {
	third := m.cfg.LeaseTTL / 3
	m.mu.Lock()
	defer m.mu.Unlock()
	s.renewing = false
	now := time.Now()
	if err != nil {
		s.renewAt = now.Add(min(third, 10*time.Second))
		return false
	}
	s.renewAt = now.Add(third - rand.N(third/4+1))
	if s.lease.Proxy != old.Proxy { // decided meanwhile: the proxy is still to be told
		fresh.Proxy = s.lease.Proxy
		s.renewAt = now
	}
	if !s.moving { // what is being handed over stays as it was offered
		s.lease, s.sealed = fresh, sealed
	}
	if s.stale {
		s.stale = false
		if !s.leaving() {
			m.cfg.Frontier.Resume(s.prefix)
		}
	}
	return true
}
