package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/node/emulate/web"
)

// The times of a run.
const (
	siteDelay  = 40 * time.Millisecond
	lookEvery  = time.Second
	tellEvery  = 10 * time.Second
	quietLooks = 8               // looks in a row without work
	stallTime  = 4 * time.Minute // without a request, though there is work
	joinTime   = time.Minute
)

// stage is one run under way.
type stage struct {
	o     options
	web   *web.Web
	wires wires
	peers []*process
	say   io.Writer
	begin time.Time

	mu     sync.Mutex
	events []event
	looks  []look
	cuts   map[int][]pair
}

// play runs a scenario to its end and judges it. Nothing runs when it returns.
func (o options) play(ctx context.Context, w wires, say io.Writer) (Report, error) {
	if o.pages == 0 { // the largest of forty sites has a twelfth or so
		o.pages = max(5*o.sites, 12*int(o.length/(o.gap+siteDelay)))
	}
	sites, err := web.New(web.Config{
		Sites: o.sites, Pages: o.pages, Seed: o.seed, MinDelay: o.gap, Delay: siteDelay,
		Addrs: func(i int) []netip.Addr { return []netip.Addr{w.site(i)} },
	})
	if err != nil {
		return Report{}, err
	}
	if err := sites.Listen(); err != nil {
		return Report{}, err
	}
	serving, stopServing := context.WithCancel(context.WithoutCancel(ctx))
	defer stopServing()
	served := make(chan error, 1)
	go func() { served <- sites.Run(serving) }()

	s := &stage{o: o, web: sites, wires: w, say: say, cuts: map[int][]pair{}}
	h, err := s.run(ctx)
	err = errors.Join(err, s.end())
	stopServing()
	if err := errors.Join(err, <-served, w.set(nil)); err != nil {
		return Report{}, err
	}
	r := judge(h)
	r.Scenario, r.Seed, r.Sites = o.scenario, o.seed, o.sites
	r.check()
	if o.keep != "" {
		err = writeHits(filepath.Join(o.dir, "hits.jsonl"), h.hits)
	}
	return r, err
}

// run takes everything from the first process to the last page.
func (s *stage) run(ctx context.Context) (*history, error) {
	if err := s.startAll(ctx); err != nil {
		return nil, err
	}
	warm := time.NewTimer(s.o.warm)
	defer warm.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-warm.C:
	}
	if err := s.peers[s.o.seed%uint64(len(s.peers))].seed(ctx, s.web.Seed()); err != nil {
		return nil, err
	}
	s.begin = time.Now()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var outcome string
	var held []string
	g, gctx := errgroup.WithContext(ctx)
	played := make(chan struct{})
	g.Go(func() error {
		defer close(played)
		return s.perform(gctx, script(s.o, s.wires.cuts()))
	})
	g.Go(func() (err error) {
		outcome, err = s.watch(gctx, played)
		if err == nil && outcome != "quiet" {
			held = s.held(gctx)
			if s.o.keep != "" { // for who looks into it
				err = s.dump()
			}
		}
		return err
	})
	if err := g.Wait(); err != nil {
		return nil, err
	}
	h := &history{
		peers: len(s.peers), gap: s.o.gap, begin: s.begin, end: time.Now(), events: s.events, looks: s.looks,
		sites: s.web.Sites(), hits: s.web.Log(), audit: s.web.Audit(), missing: s.web.Missing(s.o.pages), outcome: outcome, held: held,
	}
	slices.SortStableFunc(h.hits, func(a, b web.Hit) int { return a.Start.Compare(b.Start) })
	slices.SortStableFunc(h.events, func(a, b event) int { return a.Begin.Compare(b.Begin) })
	return h, nil
}

// perform takes every step at its time. Those of one peer wait for one another,
// as a leave may last.
func (s *stage) perform(ctx context.Context, steps []step) error {
	g, ctx := errgroup.WithContext(ctx)
	last := make([]chan struct{}, 1+len(s.peers)) // closed when the step before is done; cuts first
	for i := range last {
		last[i] = make(chan struct{})
		close(last[i])
	}
	for _, st := range steps {
		at := time.NewTimer(time.Until(s.begin.Add(st.At)))
		select {
		case <-ctx.Done():
			at.Stop()
			return errors.Join(g.Wait(), ctx.Err())
		case <-at.C:
		}
		before, done := last[1+st.Peer], make(chan struct{})
		last[1+st.Peer] = done
		g.Go(func() error {
			defer close(done)
			<-before
			return s.take(ctx, st)
		})
	}
	return g.Wait()
}

// take takes a step and writes it down.
func (s *stage) take(ctx context.Context, st step) (err error) {
	if s.o.scenario == "lost" || s.o.scenario == "leave" {
		st.Peer = s.owning(st.Peer)
	}
	e := event{step: st, Begin: time.Now()}
	var p *process
	if st.Peer >= 0 {
		p = s.peers[st.Peer]
	}
	switch st.Kind {
	case kill:
		err = p.kill()
	case start:
		err = p.start()
	case lose:
		err = p.lose()
	case pause:
		err = p.signal(stopSignal)
	case resume:
		err = p.signal(contSignal)
	case leave:
		var fault error
		if e.Said, fault = p.leave(ctx); fault != nil { // the peer's fault, not ours
			e.Said += "; " + fault.Error()
			err = p.kill()
		}
	case cut, heal:
		err = s.cut(st)
	}
	e.End = time.Now()
	s.enter(e)
	if err != nil {
		return fmt.Errorf("%v: %w", st, err)
	}
	return nil
}

// owning returns the first peer from the given one on that owns something, so that
// there is something to be seen; that one if none does.
func (s *stage) owning(peer int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.looks) > 0 {
		l := s.looks[len(s.looks)-1]
		for n := range len(s.peers) {
			if i := (peer + n) % len(s.peers); len(l.owns[i]) > 0 {
				return i
			}
		}
	}
	return peer
}

func (s *stage) cut(st step) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cuts[st.Cut] = st.Pairs; st.Kind == heal {
		delete(s.cuts, st.Cut)
	}
	set := map[pair]bool{}
	var all []pair
	for _, ps := range s.cuts {
		for _, p := range ps {
			if !set[p] {
				set[p] = true
				all = append(all, p)
			}
		}
	}
	return s.wires.set(all)
}

func (s *stage) enter(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	said := ""
	if took := e.End.Sub(e.Begin); took > time.Second || e.Said != "" {
		said = fmt.Sprintf(", %.1f s %s", took.Seconds(), e.Said)
	}
	fmt.Fprintf(s.say, "%6.1f s: %v%s\n", e.Begin.Sub(s.begin).Seconds(), e.step, said)
}

// dump ends all processes and has them write where they are.
func (s *stage) dump() error {
	var g errgroup.Group
	for _, p := range s.peers {
		if up, _ := p.state(); up {
			g.Go(p.dump)
		}
	}
	return g.Wait()
}

// end ends all processes.
func (s *stage) end() error {
	var g errgroup.Group
	for _, p := range s.peers {
		g.Go(func() error {
			if up, _ := p.state(); !up {
				return p.kill()
			}
			return p.terminate(20 * time.Second)
		})
	}
	return g.Wait()
}

// writeHits writes the sites' log.
func writeHits(path string, hits []web.Hit) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	enc := json.NewEncoder(f)
	for _, h := range hits {
		err = errors.Join(err, enc.Encode(h))
	}
	return errors.Join(err, f.Close())
}
