package shadow

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// Service is one peer's half of all links: owner of some, replica of others.
// Its methods may be called at once.
type Service struct {
	cfg   Config
	log   *slog.Logger
	sync  groupSync
	asked wire.Limiter

	mu      sync.Mutex // never held during I/O
	sources map[netip.Prefix]*source
	links   map[peer.ID]*link
	panel   []byte // ours

	held    map[netip.Prefix]*replica
	panels  map[peer.ID][]byte // of the owners
	usage   map[peer.ID]size   // of the replicas, by owner
	total   size               // sum of usage
	busy    map[netip.Prefix]chan struct{}
	pinned  map[netip.Prefix]func() error // what ends the copy afterwards, if anything does
	inlinks map[peer.ID]*inlink
	wipes   []netip.Prefix

	kick    chan struct{} // links to be started
	rubbish chan struct{} // something to be wiped
}

// New loads the copies that this peer keeps. It starts nothing.
func New(cfg Config) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s := &Service{
		cfg: cfg, log: cfg.Logger, sync: groupSync{fn: cfg.DB.Sync},
		sources: map[netip.Prefix]*source{}, links: map[peer.ID]*link{},
		held: map[netip.Prefix]*replica{}, panels: map[peer.ID][]byte{}, usage: map[peer.ID]size{}, busy: map[netip.Prefix]chan struct{}{}, pinned: map[netip.Prefix]func() error{},
		inlinks: map[peer.ID]*inlink{},
		kick:    make(chan struct{}, 1), rubbish: make(chan struct{}, 1),
	}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("shadow: %w", err)
	}
	return s, nil
}

// Attach gives the Service its Keeper. It is for the time before Run.
func (s *Service) Attach(k Keeper) { s.cfg.Keeper = k }

// Run serves as replica and keeps the followers of our subnets in sync until
// ctx ends, and returns when all of that has stopped. An error is one of the
// store, and final.
func (s *Service) Run(ctx context.Context) error {
	if s.cfg.Keeper == nil {
		return errors.New("shadow: no Keeper")
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server := wire.Serve(s.cfg.Host, s.cfg.Protocol, downLimits, s.log, s.serve)
	defer server.Close()
	if s.cfg.Asking != "" {
		asking := wire.Serve(s.cfg.Host, s.cfg.Asking, askLimits, s.log, s.tellCopies)
		defer asking.Close()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() { s.watch(ctx) })
	wg.Go(func() { s.janitor(ctx) })
	wg.Go(func() { s.remember(ctx) })
	for {
		for _, l := range s.unstarted() {
			wg.Go(func() { l.run(ctx) })
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.kick:
		}
	}
}

// SetPanel has all replicas told our panel, sealed. A Follow that shows another
// does the same.
func (s *Service) SetPanel(panel []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setPanel(panel)
}

// setPanel is SetPanel for who holds mu.
func (s *Service) setPanel(panel []byte) {
	if len(panel) == 0 || bytes.Equal(panel, s.panel) {
		return
	}
	s.panel = panel
	for _, l := range s.links {
		l.repanel = true
		poke(l.kick)
	}
}

// unstarted returns the links that nobody runs, and marks them.
func (s *Service) unstarted() []*link {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ls []*link
	for _, l := range s.links {
		if !l.running {
			l.running = true
			ls = append(ls, l)
		}
	}
	return ls
}

func (s *Service) wake() { poke(s.kick) }

// poke leaves a token in a channel of capacity 1.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// watch finds out which logs have grown, and trims those whose followers have
// all of their beginning.
func (s *Service) watch(ctx context.Context) {
	trim := time.NewTicker(max(time.Second, s.cfg.Gather))
	defer trim.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			s.trim()
			continue
		case <-s.cfg.DB.TailGrown():
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(s.cfg.Gather):
		}
		s.grown()
	}
}

// grown queues the followers whose subnets have changed.
func (s *Service) grown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		if len(src.followers) == 0 {
			continue
		}
		head, _, ok := s.cfg.DB.TailHead(src.prefix) // without one, the sender begins another
		for _, f := range src.followers {
			if f.state == stateTail && (!ok || head.Log != f.sent.Log || head.Seq > f.sent.Seq) {
				f.link.queue(f, false)
			}
		}
	}
}

// groupSync lets callers who come while a Sync runs share the next one.
type groupSync struct {
	fn      func() error
	mu      sync.Mutex
	running *syncRun
	next    *syncRun
}

type syncRun struct {
	done chan struct{}
	err  error
}

// Sync returns when a Sync that began after the call has ended.
func (g *groupSync) Sync() error {
	g.mu.Lock()
	if g.running == nil {
		run := &syncRun{done: make(chan struct{})}
		g.running = run
		g.mu.Unlock()
		g.lead(run)
		return run.err
	}
	lead, before := g.next == nil, g.running
	if lead {
		g.next = &syncRun{done: make(chan struct{})}
	}
	run := g.next
	g.mu.Unlock()
	if !lead {
		<-run.done
		return run.err
	}
	<-before.done
	g.lead(run)
	return run.err
}

func (g *groupSync) lead(run *syncRun) {
	run.err = g.fn()
	g.mu.Lock()
	g.running, g.next = g.next, nil
	g.mu.Unlock()
	close(run.done)
}

// TailPos is where a log is.
type TailPos = store.TailPos
