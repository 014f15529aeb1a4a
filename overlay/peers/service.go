package peers

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"peerd/coords"
	"peerd/coords/zone"
	"peerd/internal/backoff"
	"peerd/overlay/wire"
)

// tickInterval is how often the loop runs while something has just begun, and calmInterval
// otherwise. A new connection waits half of it, on average, for its first exchange.
const (
	tickInterval = 250 * time.Millisecond
	calmInterval = time.Second
)

// minPause is the minimum time between two runs of the loop.
const minPause = 50 * time.Millisecond

// maxSaved is the maximum number of peers passed to a Saver.
const maxSaved = 256

// A Service keeps the directory and the beacon and coordinate of this peer up to date while Run
// runs. Its parts know only parts that come before them:
//
//	self       the coordinate and the beacon of this peer
//	states     the state of measuring, dialing and checking each other peer
//	intake     beacons of other peers
//	checker    checks whether a peer is reachable
//	newcomers  who joined while others were away
//	exchanger  exchanges and heartbeats
//	publisher  when a beacon is due, and who gets it at once
//	scheduler  what is due with which peer
//
// Its methods may be called concurrently.
type Service struct {
	*env
	*intake
	*exchanger
	*newcomers
	self      *self
	states    *peerStates
	checker   *checker
	publisher *publisher
	scheduler *scheduler
	saved     []Beacon // of the peers that Config.Saver was given last
}

// New returns a Service that has a beacon. It does nothing until Run is called.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	me := &self{cfg: &cfg, est: cfg.Estimator}
	me.twin.since = time.Now().Add(twinAfter * cfg.Interval)
	wait, capacity := me.load()
	if err := me.makeBeacon(cfg.Clock.Now(), wait, capacity, cfg.Interval); err != nil {
		return nil, err
	}
	return assemble(&cfg, me), nil
}

// assemble connects the parts.
func assemble(cfg *Config, me *self) *Service {
	dims := len(cfg.Estimator.Coordinate().Vec)
	e := &env{cfg: cfg, log: cfg.Logger, dims: dims, wakeup: backoff.NewWake(),
		dir: newDirectory(directoryConfig{
			Self: cfg.Host.ID(), Topic: cfg.Topic, Dimensions: dims,
			TTL: cfg.TTL, Spacing: cfg.Spacing, Skew: cfg.Skew, Max: cfg.MaxPeers,
			Zones: zone.DefaultConfig(), Dates: cfg.Clock, Me: me,
		})}
	s := &Service{env: e, self: me, states: &peerStates{all: make(map[peer.ID]*peerState)}}
	s.intake = &intake{env: e, self: me, states: s.states,
		clocks: &clocks{log: e.log, most: cfg.Skew}}
	s.checker = &checker{env: e, self: me, states: s.states, intake: s.intake,
		checks: semaphore.NewWeighted(maxChecks), indirect: semaphore.NewWeighted(maxIndirect)}
	s.newcomers = newNewcomers(e.dir)
	s.exchanger = &exchanger{env: e, self: me, states: s.states, intake: s.intake,
		checker: s.checker, joining: s.newcomers, monitored: MonitorHost(cfg.Host, s)}
	s.publisher = &publisher{env: e, self: me, states: s.states, exchanger: s.exchanger,
		pushes: semaphore.NewWeighted(maxPush), early: rate.NewLimiter(0, earlyBurst)}
	s.scheduler = &scheduler{env: e, self: me, states: s.states, checker: s.checker,
		exchanger: s.exchanger, exchanges: semaphore.NewWeighted(maxExchanges),
		dials: semaphore.NewWeighted(maxDials), salt: rand.Uint64(),
		fast: rate.NewLimiter(rate.Every(fastRefill), maxFastMeasurements)}
	return s
}

// Self returns the latest beacon of this peer.
func (s *Service) Self() Beacon { return s.self.beacon() }

// Touch records that p was just heard over an authenticated connection.
func (s *Service) Touch(p peer.ID) { s.dir.Touch(p) }

// ReportUnreachable reports that p could not be reached. The Service checks p soon, unless it
// has just done so. If p does not answer, and no other peer that can be asked reaches it, p
// becomes suspect. ReportUnreachable does not block and may be called concurrently.
func (s *Service) ReportUnreachable(p peer.ID) { s.checker.requestCheck(p, false) }

// Directory returns the directory of the other peers.
func (s *Service) Directory() *Directory { return s.dir }

// Coordinate returns the current coordinate of this peer, without load.
func (s *Service) Coordinate() coords.Coordinate { return s.self.coordinate() }

// Moved returns how far the coordinate of this peer has moved; see coords.Estimator.Moved.
func (s *Service) Moved() float64 { return s.self.moved() }

// SetTraits sets the traits that the next beacon announces. It returns the error of
// Traits.Validate and then changes nothing.
func (s *Service) SetTraits(t coords.Traits) error { return s.self.setTraits(t) }

// OnExchange has fn called with the pings of each exchange, whichever side began it. It must be
// called before Run. fn must not block, and may be called concurrently.
func (s *Service) OnExchange(fn func(Exchange)) { s.measured = fn }

// RTT returns the last measured round trip to p, the minimum of three. It returns false if p
// was never measured or has expired.
func (s *Service) RTT(p peer.ID) (time.Duration, bool) { return s.states.rtt(p) }

// Run runs the Service until ctx is done. It then returns nil and leaves no goroutines running.
// It must be called once.
func (s *Service) Run(ctx context.Context) error {
	x := s.exchanger
	servers := []*wire.Server{
		wire.Serve(s.cfg.Host, s.cfg.Protocol, s.limits(), s.log, x.handle),
		wire.Serve(x.monitored, s.cfg.HeartbeatProtocol,
			wire.Limits{MaxMsg: maxHeartbeat, Timeout: streamTTL}, s.log, x.serveHeartbeats),
	}
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { s.loop(gctx); return nil })
	g.Go(func() error { s.saveLoop(gctx); return nil })
	err := g.Wait()
	for _, server := range servers {
		server.Close()
	}
	x.heartbeats.close()
	s.work.Wait()
	s.save()
	return err
}

// loop runs announce and schedule at every tick and wake-up.
func (s *Service) loop(ctx context.Context) {
	for {
		now := time.Now()
		s.publisher.announce(ctx, now)
		next := time.NewTimer(s.scheduler.schedule(ctx, now))
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			continue
		case <-s.wakeup:
		}
		// Wake-ups come in bursts; one run handles them all.
		if backoff.Sleep(ctx, minPause) != nil {
			return
		}
	}
}

// saveLoop saves the peers periodically.
func (s *Service) saveLoop(ctx context.Context) {
	for backoff.Sleep(ctx, s.cfg.SaveEvery) == nil {
		s.dir.Expire()
		s.save()
	}
}

// save passes the known peers to the Saver if they or their addresses have changed. If there are
// none, it keeps what was saved before.
func (s *Service) save() {
	all := s.dir.list(func(e *entry, _ time.Time) bool { return !e.hearsay() })
	all = all[:min(len(all), maxSaved)]
	same := slices.EqualFunc(all, s.saved, func(a, b Beacon) bool {
		return a.Peer == b.Peer && slices.Equal(a.Addrs, b.Addrs)
	})
	if s.cfg.Saver == nil || len(all) == 0 || same {
		return
	}
	infos := make([]peer.AddrInfo, 0, len(all))
	for _, b := range all {
		if info := b.Info(); len(info.Addrs) > 0 {
			infos = append(infos, info)
		}
	}
	if err := s.cfg.Saver.SavePeers(infos); err != nil {
		s.log.Warn("failed to save known peers", "err", err)
		return
	}
	s.saved = all
}

// env is what all parts of a Service share.
type env struct {
	cfg    *Config
	log    *slog.Logger
	dir    *Directory
	dims   int
	work   sync.WaitGroup // goroutines started by start
	wakeup backoff.Wake   // holds a token if the loop should run before the next tick
}

// wake makes the loop run now rather than at its next tick.
func (e *env) wake() { e.wakeup.Signal() }

func (e *env) limits() wire.Limits {
	return wire.Limits{MaxMsg: maxMessage, Timeout: e.cfg.Timeout}
}

// networkPeers returns the connected peers of this network.
func (e *env) networkPeers() []peer.ID {
	return slices.DeleteFunc(e.cfg.Host.Network().Peers(), func(p peer.ID) bool {
		protos, err := e.cfg.Host.Peerstore().SupportsProtocols(p, e.cfg.Protocol)
		return err != nil || len(protos) == 0 // of another network, or not identified yet
	})
}

// connect connects to a peer. It clears the library's back-off, which lasts for up to minutes
// and would outlast a partition; a Service has its own.
func (e *env) connect(ctx context.Context, info peer.AddrInfo) error {
	if sw, ok := e.cfg.Host.Network().(*swarm.Swarm); ok {
		sw.Backoff().Clear(info.ID)
	}
	return e.cfg.Host.Connect(ctx, info)
}

// start runs f in a goroutine and then releases a place of from, which the caller has acquired.
func (e *env) start(from *semaphore.Weighted, f func()) {
	e.work.Go(func() {
		defer from.Release(1)
		f()
	})
}
