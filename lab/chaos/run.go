package chaos

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

	"peerd/lab/emulate/web"
)

// The delays and time limits of a run.
const (
	siteDelay        = 40 * time.Millisecond
	lookInterval     = time.Second
	progressInterval = 10 * time.Second
	idleLooks        = 8               // successive looks without work
	stallTime        = 4 * time.Minute // without a request, though there is work
	joinTime         = 5 * time.Minute
)

// scenarioRun is the state of one run.
type scenarioRun struct {
	o        Options
	web      *web.Web
	network  network
	peers    []*process
	progress io.Writer
	begin    time.Time

	mu     sync.Mutex
	events []event
	looks  []look
	cuts   map[int][]pair
}

// runScenario runs a scenario and judges it. All its processes have exited when it returns.
func (o Options) runScenario(ctx context.Context, w network, say io.Writer) (Report, error) {
	if o.Pages == 0 { // the largest of forty sites has about a twelfth of the pages
		o.Pages = max(5*o.Sites, 12*int(o.Length/(o.Gap+siteDelay)))
	}
	sites, err := web.New(web.Config{
		Sites: o.Sites, Pages: o.Pages, Seed: o.Seed, MinDelay: o.Gap, Delay: siteDelay,
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

	s := &scenarioRun{o: o, web: sites, network: w, progress: say, cuts: map[int][]pair{}}
	h, err := s.run(ctx)
	err = errors.Join(err, s.stopAll(ctx))
	stopServing()
	if err := errors.Join(err, <-served, w.setCuts(nil)); err != nil {
		return Report{}, err
	}
	r := judge(h)
	r.Scenario, r.Seed, r.Sites = o.Scenario, o.Seed, o.Sites
	if r.Outcome == interrupted {
		r.checkPartial()
	} else {
		r.check()
	}
	if o.Keep != "" {
		err = writeHits(filepath.Join(o.dir, "hits.jsonl"), h.hits)
	}
	return r, err
}

// interrupted is the outcome of a run if its context ended before the crawl was over.
const interrupted = "interrupted"

// run starts the peers, runs the script, and waits until the crawl is over or ctx ends. Then
// the history has the events so far.
func (s *scenarioRun) run(ctx context.Context) (*history, error) {
	if err := s.startAll(ctx); err != nil {
		return nil, err
	}
	warm := time.NewTimer(s.o.Warm)
	defer warm.Stop()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-warm.C:
	}
	if err := s.peers[s.o.Seed%uint64(len(s.peers))].seed(ctx, s.web.Seed()); err != nil {
		return nil, err
	}
	s.begin = time.Now()
	var outcome string
	var held []string
	g, gctx := errgroup.WithContext(ctx)
	played := make(chan struct{})
	g.Go(func() error {
		defer close(played)
		return s.runScript(gctx, script(s.o, s.network.canCut()))
	})
	g.Go(func() (err error) {
		outcome, err = s.watch(gctx, played)
		if err == nil && outcome != "quiet" {
			held = s.held(gctx)
			if s.o.Keep != "" { // keep the stacks for debugging
				err = s.dump()
			}
		}
		return err
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() == nil {
			return nil, err
		}
		outcome = interrupted
	}
	h := &history{
		peers: len(s.peers), gap: s.o.Gap, begin: s.begin, end: time.Now(), events: s.events,
		looks: s.looks,
		sites: s.web.Sites(), hits: s.web.Log(), audit: s.web.Audit(),
		missing: s.web.Missing(s.o.Pages), outcome: outcome, held: held,
	}
	slices.SortStableFunc(h.hits, func(a, b web.Hit) int { return a.Start.Compare(b.Start) })
	slices.SortStableFunc(h.events, func(a, b event) int { return a.Begin.Compare(b.Begin) })
	return h, nil
}

// runScript runs every step at its time. A step waits for the previous one of the same peer,
// because a leave takes time.
func (s *scenarioRun) runScript(ctx context.Context, steps []step) error {
	g, ctx := errgroup.WithContext(ctx)
	last := make([]chan struct{}, 1+len(s.peers)) // closed after the last step; cuts first
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
			return s.runStep(ctx, st)
		})
	}
	return g.Wait()
}

// runStep runs and records a step.
func (s *scenarioRun) runStep(ctx context.Context, st step) (err error) {
	if s.o.Scenario == "lost" || s.o.Scenario == "leave" {
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
		if e.Output, fault = p.leave(ctx); fault != nil { // recorded as output: the run continues
			e.Output += "; " + fault.Error()
			err = p.kill()
		}
	case cut, heal:
		err = s.cut(st)
	}
	e.End = time.Now()
	s.record(e)
	if err != nil {
		return fmt.Errorf("%v: %w", st, err)
	}
	return nil
}

// owning returns the first peer, from the given one on, that owns a subnet, or the given one if
// none does. A fault at a peer without subnets has no visible effect.
func (s *scenarioRun) owning(peer int) int {
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

func (s *scenarioRun) cut(st step) error {
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
	return s.network.setCuts(all)
}

func (s *scenarioRun) record(e event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, e)
	said := ""
	if took := e.End.Sub(e.Begin); took > time.Second || e.Output != "" {
		said = fmt.Sprintf(", %.1f s %s", took.Seconds(), e.Output)
	}
	fmt.Fprintf(s.progress, "%6.1f s: %v%s\n", e.Begin.Sub(s.begin).Seconds(), e.step, said)
}

// dump stops all processes with SIGQUIT, so that their logs have their stacks.
func (s *scenarioRun) dump() error {
	var g errgroup.Group
	for _, p := range s.peers {
		if up, _ := p.state(); up {
			g.Go(p.dump)
		}
	}
	return g.Wait()
}

// stopAll stops all processes: with SIGTERM, or with SIGKILL if ctx has ended.
func (s *scenarioRun) stopAll(ctx context.Context) error {
	var g errgroup.Group
	for _, p := range s.peers {
		g.Go(func() error {
			if up, _ := p.state(); !up || ctx.Err() != nil {
				return p.kill()
			}
			return p.terminate(20 * time.Second)
		})
	}
	return g.Wait()
}

// writeHits writes the log of the sites.
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
