package owner

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"peerd/overlay/homing"
	"peerd/store"
)

// Manager holds this peer's subnets. Its methods may be called at once.
type Manager struct {
	cfg     Config
	log     *slog.Logger
	started time.Time

	mu      sync.Mutex // never held during I/O; the Frontier's own lock comes after it
	subnets map[netip.Prefix]*subnet

	outgoing      map[string]time.Time // when the last subnet left for a peer, by ourselves
	homes         *homing.Watch
	moves, scouts atomic.Int64
	seeker        seeker

	attempts  map[netip.Prefix]*attempt   // to take over what is copied here
	asking    int                         // groups of these under way
	orphans   map[netip.Prefix]*orphan    // of owners that do not answer us
	restores  map[netip.Prefix]*restoring // ours, and lost with our disk
	claims    map[netip.Prefix]bool       // that this process has begun
	wrecks    map[netip.Prefix]bool       // copies to be salvaged; true while that goes on
	unsettled map[netip.Prefix]*unsettled
	reminded  map[netip.Prefix]reminder // of owners that are there and do not follow up a copy; of Run alone
	takeovers atomic.Int64
	draining  atomic.Bool
	balance   *balancer // guarded by mu

	// Of Run alone, but awake, which does not change.
	turn    uint64 // rounds of Run
	stamped time.Time
	awake   time.Time // when this peer was last known to run before started
	present presence

	reading bool // leases are being read again; guarded by mu

	full       atomic.Bool // the disk had no room when it was last written to
	complained time.Time   // of that; guarded by mu

	saves turns // one write of subnet states at a time, in order
	kick  chan struct{}
}

// turns is a mutex that is a channel: who waits for it within a bubble of
// testing/synctest lets virtual time go on, as its holder may wait for the disk.
type turns chan struct{}

func (t turns) Lock()   { t <- struct{}{} }
func (t turns) Unlock() { <-t }

// New loads our subnets from the store, or returns all that is wrong with cfg.
// It starts nothing. Live must then be asked which subnets' hosts belong into
// the frontier, and Config.Frontier be set by Attach.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg: cfg, started: time.Now(), log: cfg.Logger, subnets: map[netip.Prefix]*subnet{}, kick: make(chan struct{}, 1),
		saves: make(turns, 1), outgoing: map[string]time.Time{}, attempts: map[netip.Prefix]*attempt{},
		orphans: map[netip.Prefix]*orphan{}, wrecks: map[netip.Prefix]bool{}, restores: map[netip.Prefix]*restoring{}, claims: map[netip.Prefix]bool{},
		balance: newBalancer(), unsettled: map[netip.Prefix]*unsettled{},
		present: presence{heard: map[string]time.Time{}},
	}
	m.cfg.Times = cfg.Times.withDefaults()
	if cfg.Look == nil {
		m.cfg.Look = cfg.Resolve
	}
	if cfg.Limits != nil {
		m.balance.limits = cfg.Limits(m.started)
	}
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	if err := m.watchHosts(); err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	err := cfg.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(r store.Subnet) error {
			if r.Phase == store.PhaseStaged || r.Phase == store.PhaseShadow {
				return nil // not ours
			}
			s, err := fromRecord(r)
			if err != nil {
				return err
			}
			if m.started.Sub(s.since) < apart {
				s.arm(m.started, false)
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
	if err == nil {
		err = m.wasAwake()
	}
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
	if hf, ok := f.(homing.Frontier); ok { // else hosts stay where they are
		if err := m.homes.Attach(hf); err != nil {
			m.log.Error("hosts that were moving stay where they are", "err", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for p, s := range m.subnets {
		if s.phase == store.PhaseDeciding || s.again {
			f.Single(p, true)
		}
		if s.phase == store.PhaseCommitting || s.doubted() {
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

// Stats counts what became of decided subnets since the start.
type Stats struct {
	// Moves are those that left because another peer had become nearer.
	Moves int64
	// Scouts are the pages that others fetched to find that out.
	Scouts int64
	// Takeovers are subnets that came to this peer because their owners were
	// silent.
	Takeovers int64
}

// Stats returns the counts.
func (m *Manager) Stats() Stats {
	return Stats{Moves: m.moves.Load(), Scouts: m.scouts.Load(), Takeovers: m.takeovers.Load()}
}

// Run keeps leases renewed, decisions taken, shadows in place, hosts at home, and
// handovers and takeovers going until ctx ends, and returns when all of these have stopped.
// An error is one of the store, and final; that it is full is none.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = m.homes.Run(ctx) }) // there is none
	t := time.NewTicker(m.cfg.Tick)
	defer t.Stop()
	renewals := make(chan struct{}, 16)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.turn++
		case <-m.kick:
		}
		if err := m.keepHouse(time.Now()); err != nil {
			return err
		}
		now := time.Now()
		for _, task := range slices.Concat(m.toMove(), m.toSeek(), m.toTake(now), m.toRead(now), m.toRescue(now), m.toRestore(now), m.toSalvage(), m.toSettle(now), m.toRemind(now)) {
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

// keepHouse does what waits for nobody. The error is one of the store.
func (m *Manager) keepHouse(now time.Time) error {
	if err := m.decideIdle(); err != nil {
		return err
	}
	m.review(now)
	m.level(now)
	m.meet(now)
	if err := m.tend(now); err != nil {
		return err
	}
	if err := m.stamp(now); m.stall(err) != nil {
		return err
	}
	return m.saveLate()
}

func (m *Manager) wake() {
	select {
	case m.kick <- struct{}{}:
	default:
	}
}

// save writes the state of a subnet to the disk. What fails for want of room is
// written by a later tick.
func (m *Manager) save(s *subnet) error { return m.saveCounting(s, store.Counters{}) }

// saveCounting is save, and adds n to the counters.
func (m *Manager) saveCounting(s *subnet, n store.Counters) error {
	m.saves.Lock()
	defer m.saves.Unlock()
	m.mu.Lock()
	r, err := s.record()
	current := m.subnets[s.prefix] == s
	m.mu.Unlock()
	if err != nil || !current {
		return err
	}
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		if n != (store.Counters{}) {
			tx.Count(n)
		}
		return tx.PutSubnet(r)
	})
	m.mu.Lock()
	s.unsaved = err != nil
	m.mu.Unlock()
	return err
}
