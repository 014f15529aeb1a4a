package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/scope"
	"peerd/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of a test.
const patience = time.Minute

// hit is one request as the server saw it.
type hit struct {
	host, path string
	start, end time.Time
}

// site is a web server at an address of its own, which keeps a log.
type site struct {
	addr netip.AddrPort
	mux  *http.ServeMux

	mu   sync.Mutex
	hits []hit
}

// newSite serves at 127.x.y.1. Without a handler for it, /robots.txt is absent.
func newSite(t *testing.T, x, y byte) *site {
	t.Helper()
	ip := netip.AddrFrom4([4]byte{127, x, y, 1})
	l, err := net.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{addr: netip.MustParseAddrPort(l.Addr().String()), mux: http.NewServeMux()}
	srv := &http.Server{Handler: s}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l)
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return s
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := hit{host: r.Host, path: r.URL.RequestURI(), start: time.Now()}
	defer func() {
		h.end = time.Now()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hits = append(s.hits, h)
	}()
	s.mux.ServeHTTP(w, r)
}

// log returns the requests that have ended, in order of their ends.
func (s *site) log() []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits...)
}

// count returns how often each path was asked for.
func (s *site) count() map[string]int {
	n := map[string]int{}
	for _, h := range s.log() {
		n[h.path]++
	}
	return n
}

// url names a page by one of the site's hosts.
func (s *site) url(host, path string) store.URL {
	return store.URL(fmt.Sprintf("http://%s:%d%s", host, s.addr.Port(), path))
}

// html answers path with a page that links to refs.
func (s *site) html(path string, refs ...any) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(w, "<!DOCTYPE html><title>%s</title>", path)
		for _, ref := range refs {
			fmt.Fprintf(w, "<a href=%q>x</a>\n", fmt.Sprint(ref))
		}
	})
}

// text answers path with plain text.
func (s *site) text(path, body string) {
	s.mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) })
}

// apart returns the least time between the end of a request and the start of
// the next, and fails when two were under way at once.
func (s *site) apart(t *testing.T) time.Duration {
	t.Helper()
	least := time.Hour
	hits := s.log()
	for i := 1; i < len(hits); i++ {
		least = min(least, hits[i].start.Sub(hits[i-1].end))
	}
	if least < 0 {
		t.Errorf("requests to %v overlap by %v", s.addr, -least)
	}
	return least
}

// observation is one call of Delegate.Observe.
type observation struct {
	peer string
	rep  store.FetchReport
	err  error
}

// rig is a crawler and what it stands on. It is its own Delegate: everything
// is fetched from here unless where and remote say otherwise.
type rig struct {
	t   testing.TB
	dir string
	db  *store.DB
	fr  *frontier.Frontier
	fe  *fetch.Fetcher
	c   *crawl.Crawler

	where   func(netip.Prefix) crawl.Place
	remote  func(context.Context, string, store.FetchRequest) (store.FetchReport, error)
	connect func(context.Context, string, store.FetchRequest) (store.FetchReport, error)

	mu       sync.Mutex
	seen     []observation
	deferred map[string]int
}

// newRig makes a rig in memory, or in dir if that is not empty.
func newRig(t testing.TB, dir string, gap time.Duration, change func(*crawl.Config)) *rig {
	t.Helper()
	return newGatedRig(t, dir, gap, nil, change)
}

// newGatedRig is newRig with a Gate.
func newGatedRig(t testing.TB, dir string, gap time.Duration, gate *crawl.Gate, change func(*crawl.Config)) *rig {
	t.Helper()
	return newRigOn(t, dir, store.Options{InMemory: dir == ""}, gap, gate, change)
}

// newRigOn is newGatedRig with a store of one's own choice.
func newRigOn(t testing.TB, dir string, o store.Options, gap time.Duration, gate *crawl.Gate, change func(*crawl.Config)) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, deferred: map[string]int{}}
	var err error
	r.db, err = store.Open(dir, o)
	r.fatal(err)
	t.Cleanup(func() { r.db.Close() })
	fc := frontier.Config{DB: r.db, Gap: gap}
	if gate != nil {
		fc.Admit = gate.Admit
	}
	r.fr, err = frontier.New(fc, func(netip.Prefix) bool { return true })
	r.fatal(err)
	get := fetch.DefaultConfig()
	get.UserAgent = "peerd-test"
	get.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	r.fe, err = fetch.New(get)
	r.fatal(err)
	t.Cleanup(r.fe.Close)
	all, err := scope.Compile(scope.Rules{Mode: scope.ModeAny}, nil)
	r.fatal(err)
	cfg := crawl.Config{
		DB: r.db, Frontier: r.fr, Fetcher: r.fe, Scope: all, Delegate: r,
		Deferred: func(n map[string]int) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for h, k := range n {
				r.deferred[h] += k
			}
		},
		Sent:  func(store.URL) bool { return false },
		Agent: "peerd", Workers: 8, MaxTries: 3, BackOff: time.Millisecond, Gap: gap, FetchTimeout: patience, Gate: gate,
	}
	if change != nil {
		change(&cfg)
	}
	r.c, err = crawl.New(cfg)
	r.fatal(err)
	return r
}

func (r *rig) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Where(p netip.Prefix) crawl.Place {
	if r.where == nil {
		return crawl.Place{}
	}
	return r.where(p)
}

func (r *rig) Remote(ctx context.Context, _ netip.Prefix, peer string, q store.FetchRequest) (store.FetchReport, error) {
	return r.remote(ctx, peer, q)
}

func (r *rig) Connect(ctx context.Context, _ netip.Prefix, peer string, q store.FetchRequest) (store.FetchReport, error) {
	return r.connect(ctx, peer, q)
}

func (r *rig) Observe(_ netip.Prefix, peer string, rep store.FetchReport, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, observation{peer, rep, err})
}

func (r *rig) observed() []observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]observation(nil), r.seen...)
}

// own makes a host at a site ours.
func (r *rig) own(host string, s *site) {
	r.t.Helper()
	r.fatal(r.fr.AddHost(host, store.SubnetOf(s.addr.Addr()), s.addr.Addr()))
}

// seed routes URLs of depth 0.
func (r *rig) seed(urls ...store.URL) {
	r.t.Helper()
	var ps []store.Pending
	for _, u := range urls {
		ps = append(ps, store.Pending{URL: u})
	}
	r.fatal(r.c.Route(ps))
}

// start runs the crawler until the returned function is called.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	done := make(chan error, 1)
	go func() { done <- r.c.Run(ctx) }()
	return func() {
		r.t.Helper()
		cancel()
		r.fatal(<-done)
	}
}

// crawl runs until nothing is left.
func (r *rig) crawl() {
	r.t.Helper()
	stop := r.start()
	r.until("nothing is left", r.idle)
	stop()
}

func (r *rig) idle() bool {
	s := r.fr.Stats()
	return s.Pending == 0 && s.InFlight == 0
}

// until waits for a condition.
func (r *rig) until(what string, cond func() bool) {
	r.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	end := time.After(3 * patience) // of a busy machine
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("not within %v: %s; frontier %+v", 3*patience, what, r.fr.Stats())
		}
	}
}

// page returns what is kept of u.
func (r *rig) page(u store.URL) (p store.Page, ok bool) {
	r.t.Helper()
	err := r.db.View(func(tx *store.Tx) (err error) {
		p, err = tx.Page(u)
		return err
	})
	if errors.Is(err, store.ErrNotFound) {
		return p, false
	}
	r.fatal(err)
	return p, true
}

// waiting returns how many URLs are put aside, by host.
func (r *rig) waiting() map[string]int {
	r.t.Helper()
	n := map[string]int{}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		all, err := tx.DeferredHosts()
		for _, d := range all {
			n[d.Host] = d.Count
		}
		return err
	}))
	return n
}
