package owner

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"peerd/coords"
	"peerd/overlay/hostmove"
	"peerd/overlay/ownership"
	"peerd/store"
)

// Manager holds this peer's subnets. It consists of parts. The table holds the subnets, and nothing
// else does. Each other part does one thing with them, and knows only parts that come before it:
//
//	replicas      copies of its subnets at other peers
//	balance       load, working hours
//	placement     the strategy: decisions, scouts, reviews
//	leases        renewal, votes against this peer, rivals
//	reachability  servers that this peer cannot reach
//	salvager      copies that no peer continues
//	arrivals      subnets that become this peer's, those that are handed over included
//	departures    subnets that leave: handover, yielding, draining
//	claimer       claims, those that were interrupted, and subnets of a lost disk
//	hosts         moves of single hosts
//	presence      who was away, this peer included
//	failover      takeovers, and subnets of which no peer has a copy
//	copyPolicy    which copies are kept here
//	resolver      the owner of a host
//
// Its methods may be called at once.
type Manager struct {
	*table
	*replicas
	*balance
	*leases
	*departures
	*presence
	*failover
	placement    *Placement
	reachability *reachability
	salvager     *salvager
	arrivals     *arrivals
	claimer      *claimer
	hosts        *hosts
	policy       *copyPolicy
	resolver     *resolver
	turn         uint64 // rounds of Run
}

// New loads our subnets from the store, or returns all that is wrong with cfg.
// It starts nothing. Live must then be asked which subnets' hosts belong into
// the frontier, and Config.Frontier be set by Attach.
func New(cfg Config) (*Manager, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	m := newManager(newEnv(cfg))
	m.balance.balancer.limits = cfg.Limiter.Limits(m.started)
	err := m.hosts.watch(m.resolver)
	if err == nil {
		err = m.load()
	}
	if err == nil {
		err = m.claimer.loadClaims()
	}
	if err == nil {
		err = m.presence.wasAwake()
	}
	if err != nil {
		return nil, fmt.Errorf("owner: %w", err)
	}
	return m, nil
}

// newManager connects the parts: each knows those that were made before it.
func newManager(e *env) *Manager {
	t := &table{env: e, subnets: map[netip.Prefix]*subnet{}}
	m := &Manager{table: t}
	m.replicas = &replicas{table: t}
	m.balance = &balance{table: t, balancer: newBalancer()}
	m.placement = &Placement{table: t, balance: m.balance, replicas: m.replicas,
		outgoing: map[string]time.Time{},
		searches: queue[coords.Proxy]{atOnce: seeksAtOnce, wait: time.Second, waitMax: time.Minute}}
	m.leases = &leases{table: t, placement: m.placement}
	m.reachability = &reachability{table: t, balance: m.balance,
		refused: map[netip.Prefix]time.Time{}}
	m.salvager = &salvager{table: t,
		copies: queue[struct{}]{atOnce: salvagesAtOnce, wait: takeWait, waitMax: takeWaitMax}}
	m.arrivals = &arrivals{table: t, balance: m.balance, leases: m.leases, placement: m.placement,
		reachability: m.reachability, salvager: m.salvager}
	m.departures = &departures{table: t, leases: m.leases, replicas: m.replicas}
	m.claimer = &claimer{table: t, arrivals: m.arrivals, replicas: m.replicas,
		claims:   map[netip.Prefix]bool{},
		restores: queue[*restoring]{most: maxOrphans, wait: takeWait, waitMax: takeWaitMax},
		unsettled: queue[bool]{most: unsettledMost, atOnce: unsettledAtOnce,
			cooldown: unsettledCooldown, wait: unsettledWait, waitMax: unsettledWaitMax}}
	m.hosts = &hosts{table: t, claimer: m.claimer, replicas: m.replicas,
		reachability: m.reachability}
	m.presence = &presence{table: t, hosts: m.hosts, leases: m.leases}
	m.failover = &failover{table: t, arrivals: m.arrivals, claimer: m.claimer, presence: m.presence,
		replicas: m.replicas, salvager: m.salvager,
		attempts: queue[int]{wait: takeWait, waitMax: takeWaitMax},
		orphans:  queue[orphan]{most: maxOrphans, wait: takeWait, waitMax: takeWaitMax}}
	m.policy = &copyPolicy{table: t, claimer: m.claimer, failover: m.failover, leases: m.leases,
		salvager: m.salvager, confirms: queue[copyAsker]{most: confirmMost, atOnce: confirmAtOnce,
			cooldown: confirmCooldown}}
	m.resolver = &resolver{table: t, arrivals: m.arrivals, claimer: m.claimer,
		failover: m.failover, hosts: m.hosts, leases: m.leases, reachability: m.reachability,
		leaseLookups: semaphore.NewWeighted(maxLeaseLookups),
		checks:       newHomeChecks(), confirming: semaphore.NewWeighted(confirmsAtOnce)}
	return m
}

// load reads our subnets from the store.
func (m *Manager) load() error {
	return m.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Subnets(func(r store.Subnet) error {
			if r.Phase == store.PhaseStaged || r.Phase == store.PhaseReplica {
				return nil // not ours
			}
			s, err := fromRecord(r)
			if err != nil {
				return err
			}
			if m.started.Sub(s.since) < apart {
				s.arm(m.started)
			}
			m.subnets[r.Prefix] = s
			_, err = m.cfg.Leases.Hold(s.sealed, s.since)
			if err != nil { // expired: Renew looks up the owner
				m.log.Warn("found own lease expired", "subnet", r.Prefix, "err", err)
				s.unit, _ = s.unit.Step(ownership.Event{Kind: ownership.Suspected})
			}
			return nil
		})
	})
}

// Attach sets the frontier, which contains the hosts of subnets that are Live, and puts
// every subnet there into its saved state.
func (m *Manager) Attach(f Frontier) {
	m.cfg.Frontier = f
	if hf, ok := f.(hostmove.Frontier); ok { // else hosts stay where they are
		m.reachability.hosts = hf
		if err := m.hosts.hostMoves.Attach(hf); err != nil {
			m.log.Error("failed to load host moves; moving hosts stay in place", "err", err)
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range m.subnets {
		m.show(s)
	}
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
	return Stats{Moves: m.departures.moves.Load(), Scouts: m.placement.scouts.Load(),
		Takeovers: m.arrivals.takeovers.Load()}
}

// kicksPerTick is how many times per Config.Tick what is due is looked for at once.
const kicksPerTick = 5

// Run renews leases, makes decisions, and maintains replicas, host moves, handovers and
// takeovers until ctx ends; it returns when all of these have stopped. An error comes
// from the store and is fatal; a full disk is not an error.
func (m *Manager) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	wg.Go(func() { _ = m.hosts.hostMoves.Run(ctx) }) // there is none
	t := time.NewTicker(m.cfg.Tick)
	defer t.Stop()
	renewals := make(chan struct{}, 16)
	kick, rested := m.kick, (<-chan time.Time)(nil)
	for {
		var tasks []func(context.Context)
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
			m.turn++
			now := time.Now()
			if err := m.runMaintenance(now); err != nil {
				return err
			}
			tasks = slices.Concat(m.leases.toRead(now), m.reachability.toAsk(now))
			if m.slow() {
				tasks = append(tasks, m.failover.toNotify(now)...)
			}
		case <-kick: // each looks at all subnets, and many may come at once
			kick, rested = nil, time.After(m.cfg.Tick/kicksPerTick)
		case <-rested:
			kick, rested = m.kick, nil
			continue
		}
		now := time.Now()
		if m.slow() {
			tasks = slices.Concat(tasks, m.failover.toTake(now), m.failover.toRescue(now),
				m.salvager.toSalvage())
		}
		for _, task := range slices.Concat(tasks, m.departures.toMove(), m.placement.toSeek(),
			m.claimer.toRestore(now), m.claimer.toSettle(now), m.policy.toConfirm(now)) {
			wg.Go(func() { task(ctx) })
		}
		for _, s := range m.leases.toRenew(time.Now(), cap(renewals)-len(renewals)) {
			renewals <- struct{}{}
			wg.Go(func() {
				m.leases.renew(ctx, s)
				<-renewals
			})
		}
	}
}

// slowly is the number of rounds (Config.Tick) between two looks at what changes slowly.
const slowly = 2

func (m *Manager) slow() bool { return m.turn%slowly == 0 }

// runMaintenance runs the steps that do not block. The error comes from the store.
func (m *Manager) runMaintenance(now time.Time) error {
	if err := m.placement.decideIdle(); err != nil {
		return err
	}
	m.placement.review(now)
	m.balance.rebalance(now)
	if m.slow() {
		m.presence.observePresence(now)
	}
	if err := m.leases.recount(now); err != nil {
		return err
	}
	if m.slow() {
		if err := m.replicas.maintainReplicas(now); err != nil {
			return err
		}
	}
	if err := m.presence.stamp(now); m.noteDiskFull(err) != nil {
		return err
	}
	return m.saveLate()
}
