package peers

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/coords"
	"peerd/coords/zone"
	"peerd/overlay/wire"
)

// step is how often the Service looks whether something is to be done. A new
// connection waits half of it, on average, for its first exchange.
const step = 250 * time.Millisecond

// breath is the least pause between two looks.
const breath = 50 * time.Millisecond

// maxSaved is how many peers a Saver is told.
const maxSaved = 256

// A Service keeps the directory, the own beacon and the own coordinate up to
// date while Run runs. Its methods may be called concurrently.
type Service struct {
	cfg  Config
	log  *slog.Logger
	dir  *Directory
	dims int

	work      sync.WaitGroup // exchanges and dials under way
	exchanges slots
	dials     slots
	words     slots
	checks    slots
	favours   slots         // probes that others have asked for
	asked     wire.Limiter  // how often they do
	news      chan struct{} // holds a token when there is something to do before the next step

	mu        sync.Mutex // held for computations only
	est       *coords.Estimator
	announcer *coords.Announcer
	own       Beacon
	ownSealed []byte
	links     map[peer.ID]*link
	traits    coords.Traits // never changed in place: beacons share it
	larger    time.Time     // when somebody last showed that he cannot know everybody
	doubted   bool          // somebody has taken this peer for dead, and was told no better yet
	expired   time.Time     // when a peer last did not answer that has expired since

	// Of the goroutine of the loop alone:
	looked  time.Time // when Load was asked
	sent    time.Time // when the last beacon was
	due     time.Time // when the next one is, changed or not
	early   budget    // for beacons before they are due
	measure time.Time // when the next measurement is
	hasty   int       // how many more measurements may come quickly
	near    bool      // whether the last one was of a near partner
	salt    uint64    // picks the random partners
	last    circle    // as found at
	lastAt  time.Time
}

// New returns a Service that does nothing yet, but has a beacon to show.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Load == nil {
		cfg.Load = func() (time.Duration, float64) { return 0, 1 }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	announcer, err := coords.NewAnnouncer(coords.DefaultStabilityConfig())
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	dims := len(cfg.Estimator.Coordinate().Vec)
	var s *Service
	s = &Service{
		cfg: cfg, log: cfg.Logger, dims: dims,
		dir: NewDirectory(DirectoryConfig{
			Self: cfg.Host.ID(), Topic: cfg.Topic, Dimensions: dims,
			TTL: cfg.TTL, Spacing: cfg.Spacing, Skew: cfg.Skew, Max: cfg.MaxPeers, Zones: zone.DefaultConfig(),
			Dates: cfg.Now,
			At:    func() coords.Coordinate { return s.Coordinate() },
		}),
		exchanges: make(slots, maxExchanges), dials: make(slots, maxDials), words: make(slots, 1),
		checks: make(slots, maxChecks), favours: make(slots, maxFavours),
		news: make(chan struct{}, 1),
		est:  cfg.Estimator, announcer: announcer, links: make(map[peer.ID]*link),
		hasty: hasteMax, salt: rand.Uint64(),
	}
	wait, capacity := s.load()
	if err := s.renew(cfg.Now(), wait, capacity, cfg.Interval); err != nil {
		return nil, err
	}
	return s, nil
}

// Self is the own beacon as last made.
func (s *Service) Self() Beacon {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.own
}

// Directory is what is known of the others.
func (s *Service) Directory() *Directory { return s.dir }

// Coordinate is the own coordinate now, without load.
func (s *Service) Coordinate() coords.Coordinate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.est.Coordinate()
}

// SetTraits says what this peer has learnt of itself; the next beacon tells the
// others. The error is that of Traits.Validate, and nothing changes then.
func (s *Service) SetTraits(t coords.Traits) error {
	if err := t.Validate(); err != nil {
		return fmt.Errorf("peers: own traits: %w", err)
	}
	t = slices.Clone(t)
	s.mu.Lock()
	s.traits = t
	s.mu.Unlock()
	return nil
}

// RTT is the round trip to p, the least of three, as measured last; false if it
// never was, or p is forgotten.
func (s *Service) RTT(p peer.ID) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.links[p]
	if l == nil || l.rtt == 0 {
		return 0, false
	}
	return l.rtt, true
}

// Run works until ctx ends and then returns nil, with nothing left running. Call
// it once.
func (s *Service) Run(ctx context.Context) error {
	server := wire.Serve(s.cfg.Host, s.cfg.Protocol, s.limits(), s.log, s.answer)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.loop(gctx); return nil })
	g.Go(func() error { s.saveLoop(gctx); return nil })
	err := g.Wait()
	server.Close()
	s.work.Wait()
	s.save()
	return err
}

// loop does what is due, step by step.
func (s *Service) loop(ctx context.Context) {
	t := time.NewTicker(step)
	defer t.Stop()
	for {
		now := time.Now()
		s.announce(ctx, now)
		s.schedule(ctx, now)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			continue
		case <-s.news:
		}
		// News come in bursts; looking costs more than waiting for the rest.
		select {
		case <-ctx.Done():
			return
		case <-time.After(breath):
		}
	}
}

// saveLoop saves now and then; Run does so at the end.
func (s *Service) saveLoop(ctx context.Context) {
	t := time.NewTicker(s.cfg.SaveEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			s.dir.Expire()
			s.save()
		}
	}
}

// save tells the Saver who is there. Nobody is not worth telling: whoever was
// saved before is the better hope.
func (s *Service) save() {
	all := s.dir.known()
	if s.cfg.Saver == nil || len(all) == 0 {
		return
	}
	infos := make([]peer.AddrInfo, 0, min(len(all), maxSaved))
	for _, b := range all[:min(len(all), maxSaved)] {
		if info := b.Info(); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	if err := s.cfg.Saver.SavePeers(infos); err != nil {
		s.log.Warn("saving known peers failed", "err", err)
	}
}

// spread is d, 75 to 125 % of it, so that peers do not fall into step.
func spread(d time.Duration) time.Duration {
	return d*3/4 + randDuration(d/2)
}

func randDuration(n time.Duration) time.Duration {
	if n <= 0 {
		return 0
	}
	return rand.N(n)
}

// slots bounds how many of something run at a time.
type slots chan struct{}

// take takes a slot if one is free.
func (s slots) take() bool {
	select {
	case s <- struct{}{}:
		return true
	default:
		return false
	}
}

// start runs f in a goroutine of its own, and then frees a slot, which the
// caller has taken.
func (s *Service) start(from slots, f func()) {
	s.work.Go(func() {
		defer func() { <-from }()
		f()
	})
}
