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

	"peerd/overlay/wire"
)

// Service is this peer as an owner with witnesses, and as a witness of others. Its
// methods may be called at once.
type Service struct {
	cfg  Config
	self peer.ID
	now  func() time.Time
	link link
	log  *slog.Logger
	asks wire.Limiter
	disk *writer

	mu      sync.Mutex // never held during I/O
	holder  *holder
	guard   *guard
	pending *held                      // a panel that is on its way to the disk
	changed chan struct{}              // closed at the next change
	had     bool                       // the right, when last looked at
	won     map[netip.Prefix]time.Time // until when votes for it may be used here
	asking  map[netip.Prefix]bool      // by an Ask that runs
	doubted bool                       // Config.Doubt has to be called before there is a right again
	fresh   bool                       // the Store does not say yet that it is not new
	busy    map[peer.ID]*beater
}

// beater is what is under way to one witness.
type beater struct {
	running bool
	next    time.Time
}

// New returns a Service that remembers what Store has. It answers nobody before
// Run.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	l := newStreams(cfg)
	return build(cfg, cfg.Host.ID(), l, time.Now)
}

// build is New over any link and clock.
func build(cfg Config, self peer.ID, l link, now func() time.Time) (*Service, error) {
	s := &Service{
		cfg: cfg, self: self, now: now, link: l, log: cfg.Logger,
		changed: make(chan struct{}), busy: map[peer.ID]*beater{}, won: map[netip.Prefix]time.Time{}, asking: map[netip.Prefix]bool{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.disk = newWriter(s.values, s.written, cfg.Store)
	kept, err := load(cfg.Store)
	if err != nil {
		return nil, err
	}
	at := now()
	s.holder = newHolder(self, cfg, at, kept.panels)
	s.guard = newGuard(self, cfg, at, rand.Uint64()>>1+1, kept.fresh)
	kept.restore(s.guard, at)
	s.fresh = kept.fresh
	s.had, _ = s.holder.right(at)
	return s, nil
}

// Run serves the protocol and keeps a panel of witnesses that hear this peer, until
// ctx ends. It leaves nothing running. Once only.
func (s *Service) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.disk.run(ctx); return nil })
	g.Go(func() error { s.link.serve(ctx, s.handle); return nil })
	g.Go(func() error { s.tick(ctx, g); return nil })
	return g.Wait()
}

// Right reports whether this peer may act as the owner that its leases name, apart
// from subnets that Config.Revoked told of; and until when at least, if no witness
// answers any more: the zero time means for ever. To be asked before each fetch.
func (s *Service) Right() (ok bool, until time.Time) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.right(now)
}

// right is Right, with mu held.
func (s *Service) right(now time.Time) (bool, time.Time) {
	if s.doubted {
		return false, time.Time{}
	}
	return s.holder.right(now)
}

// Changed returns a channel that is closed when Right or Panel next changes. Get
// it first, then look.
func (s *Service) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Panel returns the newest panel of this peer, sealed, for those who may have to
// take over: nil as long as there is none. Shared: read only.
func (s *Service) Panel() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holder.newest().sealed
}

// Heard returns when p last spoke or answered to this peer in this protocol, the
// zero time for never since the start.
func (s *Service) Heard(p peer.ID) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var at time.Time
	if w := s.guard.wards[p]; w != nil {
		at = w.heard
	}
	if m := s.holder.members[p]; m != nil && m.heard.After(at) {
		at = m.heard
	}
	return at
}

// tick keeps heartbeats and panel up to date until ctx ends.
func (s *Service) tick(ctx context.Context, g *errgroup.Group) {
	sweep := s.now()
	for ctx.Err() == nil {
		now := s.now()
		for _, p := range s.review(now) {
			g.Go(func() error { s.talk(ctx, p); return nil })
		}
		s.doubt()
		s.renew(ctx, now)
		s.birth(ctx, now)
		if now.Sub(sweep) > VoteLife {
			sweep = now
			s.sweep(ctx, now)
		}
		pause(ctx, s.rest())
	}
}

// rest is how long there is nothing to do: until the right ends, at most.
func (s *Service) rest() time.Duration {
	d := s.cfg.Interval / 5
	if ok, until := s.Right(); ok && !until.IsZero() {
		d = min(d, max(until.Sub(s.now()), time.Millisecond))
	}
	return d
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// review looks at who should be a witness and returns whom a heartbeat is due for.
func (s *Service) review(now time.Time) (due []peer.ID) {
	present := s.cfg.Peers()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settle(now)
	targets := s.holder.targets(now, s.holder.choose(now, present))
	for _, p := range targets {
		b := s.busy[p]
		if b == nil {
			b = &beater{}
			s.busy[p] = b
		}
		if !b.running && !now.Before(b.next) {
			b.running, b.next = true, now.Add(s.cfg.Interval)
			due = append(due, p)
		}
	}
	for p, b := range s.busy {
		if !b.running && now.Sub(b.next) > s.cfg.Gone {
			delete(s.busy, p)
		}
	}
	return due
}

// settle brings the right and the panels in force up to date, and tells of
// changes. With mu held.
func (s *Service) settle(now time.Time) {
	changed, doubt := s.holder.settle(now)
	s.doubted = s.doubted || doubt
	if ok, _ := s.right(now); ok != s.had {
		s.had, changed = ok, true
		if ok {
			s.log.Info("enough witnesses hear this peer: it may act as owner")
		} else {
			s.log.Warn("too few witnesses hear this peer: it may not act as owner")
		}
	}
	if changed {
		s.tell()
	}
}

// tell wakes whoever waits for a change. With mu held.
func (s *Service) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}
