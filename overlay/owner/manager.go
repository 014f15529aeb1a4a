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
// crawl/frontier.
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
	Frontier  Frontier
	Directory Directory
	Strategy  assign.Strategy
	Leases    *lease.Registry
	Homes     *home.Registry
	Estimate  *estimate.Service
	Sender    *handover.Sender
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
	Tick   time.Duration
	Logger *slog.Logger
}

// Manager holds this peer's subnets. Its methods may be called at once.
type Manager struct {
	cfg Config
	log *slog.Logger

	mu      sync.Mutex // never held during I/O
	subnets map[netip.Prefix]*subnet

	saves sync.Mutex // one write of subnet states at a time, in order
	kick  chan struct{}
}

// New loads our subnets from the store. It starts nothing. Live must then be
// asked which subnets' hosts belong into the frontier, and Config.Frontier be
// set by Attach.
func New(cfg Config) (*Manager, error) {
	m := &Manager{cfg: cfg, log: cfg.Logger, subnets: map[netip.Prefix]*subnet{}, kick: make(chan struct{}, 1)}
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
			if err != nil { // too old: Renew signs it anew
				m.log.Warn("an own lease is no longer valid", "subnet", r.Prefix, "err", err)
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
	for p, s := range m.subnets {
		switch s.phase {
		case store.PhaseDeciding:
			f.Single(p, true)
		case store.PhaseCommitting:
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
// ends, and returns when all of these have stopped.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
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
		for _, s := range m.toMove() {
			wg.Go(func() { m.move(ctx, s) })
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
		if len(due) < n && !s.renewing && !s.moving && s.phase != store.PhaseCommitting && !s.renewAt.After(now) {
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
	third := m.cfg.LeaseTTL / 3
	m.mu.Lock()
	s.renewing = false
	s.renewAt = time.Now().Add(third - rand.N(third/4+1))
	if err != nil {
		s.renewAt = time.Now().Add(min(third, 10*time.Second))
	} else if fresh.Epoch == s.lease.Epoch {
		s.lease, s.sealed = fresh, sealed
	}
	m.mu.Unlock()
	var beaten *lease.BeatenError
	switch {
	case errors.As(err, &beaten):
		m.beaten(beaten.By)
	case err != nil && ctx.Err() == nil:
		m.log.Warn("lease not renewed; trying again", "subnet", l.Subnet, "err", err)
	case err == nil:
		if err := m.save(s); err != nil {
			m.log.Error("subnet state not written", "subnet", l.Subnet, "err", err)
		}
	}
}
