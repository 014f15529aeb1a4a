package peers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"

	"peerd/coords"
	"peerd/overlay/wire"
)

// step is how often the Service looks whether something is to be done. A new
// connection waits half of it, on average, for its first exchange.
const step = 250 * time.Millisecond

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
	news      chan struct{} // holds a token when there is something to do before the next step

	topic *pubsub.Topic // set by Run

	mu        sync.Mutex // held for computations only
	est       *coords.Estimator
	announcer *coords.Announcer
	own       Beacon
	ownSealed []byte
	links     map[peer.ID]*link

	// Of the goroutine of the loop alone:
	looked  time.Time // when Load was asked
	sent    time.Time // when the last beacon was
	due     time.Time // when the next one is, changed or not
	measure time.Time // when the next measurement is
}

// New returns a Service that does nothing yet, but has a beacon to show.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Load == nil {
		cfg.Load = func() (time.Duration, float64) { return 0, 1 }
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	announcer, err := coords.NewAnnouncer(coords.DefaultStabilityConfig())
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	dims := len(cfg.Estimator.Coordinate().Vec)
	s := &Service{
		cfg: cfg, log: cfg.Logger, dims: dims,
		dir: NewDirectory(DirectoryConfig{
			Self: cfg.Host.ID(), Topic: cfg.Topic, Dimensions: dims,
			TTL: cfg.TTL, Skew: cfg.Skew, Max: cfg.MaxPeers,
		}),
		exchanges: make(slots, maxExchanges), dials: make(slots, maxDials), news: make(chan struct{}, 1),
		est: cfg.Estimator, announcer: announcer, links: make(map[peer.ID]*link),
	}
	wait, capacity := s.load()
	if err := s.renew(time.Now(), wait, capacity); err != nil {
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

// Run works until ctx ends and then returns nil, with nothing left running. The
// error is that the topic cannot be joined: somebody else has. Call it once.
func (s *Service) Run(ctx context.Context) error {
	leave, err := s.join()
	if err != nil {
		return err
	}
	server := wire.Serve(s.cfg.Host, s.cfg.Protocol, s.limits(), s.log, s.answer)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.loop(gctx); return nil })
	g.Go(func() error { s.saveLoop(gctx); return nil })
	err = g.Wait()
	server.Close()
	s.work.Wait()
	s.save()
	return errors.Join(err, leave())
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
		case <-s.news:
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
	all := s.dir.All()
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
