package witness

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/internal/backoff"
	"peerd/internal/clock"
	"peerd/overlay/wire"
)

// Service is this peer as an owner with witnesses, and as a witness of other owners. Its
// methods are safe for concurrent use.
type Service struct {
	cfg       Config
	self      peer.ID
	clock     clock.Clock
	transport transport
	log       *slog.Logger
	limiter   wire.Limiter
	writer    *writer

	mu       sync.Mutex // never held during I/O
	owner    *ownerState
	witness  *witnessState
	pending  *sealedSet                 // being written to disk
	hadLease bool                       // the quorum lease held when last checked
	wonUntil map[netip.Prefix]time.Time // until when votes for a subnet may be used here
	voting   map[netip.Prefix]bool      // subnets for which RequestVotes runs
	attempt  uint64                     // number of the last request for votes

	rereadDue     bool // Node.RereadLeases has to be called before there is a lease again
	uninitialized bool // the Store is not marked as in use yet
	retiredStored bool // the Store has a set that is not in force any more
	heartbeats    map[peer.ID]*heartbeatState
}

// heartbeatState is the state of heartbeats to one witness.
type heartbeatState struct {
	running bool
	failed  bool      // the last one was not answered
	at      time.Time // when the last one was sent, or failed
}

// New returns a Service with the state in Config.Store. It does not serve before
// Run.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return build(cfg, cfg.Host.ID(), hostTransport{cfg}, clock.Clock{})
}

// build is New with any transport and clock.
func build(cfg Config, self peer.ID, l transport, c clock.Clock) (*Service, error) {
	s := &Service{
		cfg: cfg, self: self, clock: c, transport: l, log: cfg.Logger,
		heartbeats: map[peer.ID]*heartbeatState{},
		wonUntil:   map[netip.Prefix]time.Time{}, voting: map[netip.Prefix]bool{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.writer = newWriter(s, cfg.Store)
	stored, err := load(cfg.Store)
	if err != nil {
		return nil, err
	}
	at := c.Now()
	s.owner = newOwnerState(self, cfg, at, stored.own)
	s.witness = newWitnessState(self, cfg, at, rand.Uint64()>>1+1, stored.uninitialized)
	stored.restore(s.witness, at)
	s.uninitialized = stored.uninitialized
	s.hadLease, _ = s.owner.quorumLease(at)
	return s, nil
}

// Run serves the protocol and keeps a set of witnesses that hear this peer, until
// ctx ends. It leaves nothing running. Call it once.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.writer.run(ctx); return nil })
	g.Go(func() error { s.transport.serve(ctx, s.handle); return nil })
	g.Go(func() error { s.run(ctx, g); return nil })
	return g.Wait()
}

// QuorumLease reports whether this peer may act as the owner that its leases name, except
// for subnets that were passed to Node.Revoked; and how long at least, if no witness
// answers any more: the zero time means without end. Call it before each fetch.
func (s *Service) QuorumLease() (ok bool, until time.Time) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.quorumLease(now)
}

// quorumLease is QuorumLease. The caller holds mu.
func (s *Service) quorumLease(now time.Time) (bool, time.Time) {
	if s.rereadDue {
		return false, time.Time{}
	}
	return s.owner.quorumLease(now)
}

// QuorumLeaseWithout is QuorumLease if the answers of some witnesses do not count: those that say
// that they have voted against this peer.
func (s *Service) QuorumLeaseWithout(voters []peer.ID) (ok bool, until time.Time) {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner.quorumLease(now, voters...)
}

// Retired returns when a witness set last ceased to be in force since the start; the zero time:
// never.
func (s *Service) Retired() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner.retired
}

// Strike has a witness replaced if another peer can take its place: its votes led to no lease.
func (s *Service) Strike(id peer.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.owner.members[id]; m != nil {
		m.struck = s.clock.Now()
	}
}

// WitnessSet returns this peer's newest witness set, sealed, for those that may have to
// take over; nil if there is none. The caller must not modify it.
func (s *Service) WitnessSet() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owner.newest().sealed
}

// Alone reports whether this peer is the survivor of a network of two: its only witness has been
// silent for AloneAfter.
func (s *Service) Alone() bool {
	now := s.clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.owner.newest()
	return p.Pair() && clock.Elapsed(now, s.owner.members[p.Members[0]].last()) >= AloneAfter
}

// run sends heartbeats and keeps the witness set up to date until ctx ends.
func (s *Service) run(ctx context.Context, g *errgroup.Group) {
	sweep := s.clock.Now()
	for ctx.Err() == nil {
		now := s.clock.Now()
		chosen, due := s.review(now)
		for _, p := range due {
			g.Go(func() error { s.sendHeartbeats(ctx, p); return nil })
		}
		s.rereadLeases()
		s.renewSet(ctx, now, chosen)
		s.saveRetired(ctx)
		s.markInitialized(ctx, now)
		if now.Sub(sweep) > VoteLife {
			sweep = now
			s.sweep(ctx, now)
		}
		_ = backoff.Sleep(ctx, s.idleTime())
	}
}

// idleTime returns how long run may wait: at most until the quorum lease ends.
func (s *Service) idleTime() time.Duration {
	d := s.cfg.Interval / 5
	if ok, until := s.QuorumLease(); ok && !until.IsZero() {
		d = min(d, max(until.Sub(s.clock.Now()), time.Millisecond))
	}
	return d
}

// review updates the state. It returns the peers that should be witnesses now, and those for which
// a heartbeat is due.
func (s *Service) review(now time.Time) (chosen, due []peer.ID) {
	present, every := s.cfg.Node.LivePeers(), s.cfg.IdleInterval
	if s.cfg.Node.Owns() {
		every = s.cfg.Interval
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(now)
	chosen = s.owner.choose(now, present)
	for _, p := range s.owner.targets(now, chosen) {
		b := s.heartbeats[p]
		if b == nil {
			b = &heartbeatState{}
			s.heartbeats[p] = b
		}
		pause := every
		if b.failed { // soon, because three in a row must not fail
			pause = s.cfg.Interval / 5
		}
		if !b.running && now.Sub(b.at) >= pause {
			b.running, b.failed, b.at = true, false, now
			due = append(due, p)
		}
	}
	for p, b := range s.heartbeats {
		if !b.running && now.Sub(b.at) > s.cfg.Gone {
			delete(s.heartbeats, p)
		}
	}
	return chosen, due
}

// update brings the quorum lease and the sets in force up to date.
// The caller holds mu.
func (s *Service) update(now time.Time) {
	sets := len(s.owner.sets)
	unsure := s.owner.retireSets(now)
	if len(s.owner.sets) < sets && !unsure {
		s.retiredStored = true
	}
	unsure = s.owner.recovered(now) || unsure
	s.rereadDue = s.rereadDue || unsure
	if ok, _ := s.quorumLease(now); ok != s.hadLease {
		s.hadLease = ok
		if ok {
			s.log.Info("gained quorum lease: enough witnesses hear this peer")
		} else {
			s.log.Warn("lost quorum lease: too few witnesses hear this peer")
		}
	}
}
