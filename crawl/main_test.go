package crawl_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/crawl"
	"peerd/crawl/crawllet/page"
	"peerd/crawl/deny"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/quota"
	"peerd/crawl/scope"
	"peerd/internal/waittest"
	"peerd/store"
)

func TestMain(m *testing.M) {
	waittest.Parallel()
	goleak.VerifyTestMain(m)
}

// testTimeout bounds every wait of a test. It only ends one that hangs: a busy machine may stand
// still for a minute.
const testTimeout = 5 * time.Minute

// hit is one request as the server saw it.
type hit struct {
	host, path string
	start, end time.Time
}

// site is a web server with its own address and a log of requests.
type site struct {
	addr netip.AddrPort
	mux  *http.ServeMux

	mu   sync.Mutex
	hits []hit
}

// newSite serves at 127.x.y.1. Without a handler, /robots.txt does not exist.
func newSite(t *testing.T, x, y byte) *site {
	t.Helper()
	return newSiteAt(t, netip.AddrFrom4([4]byte{127, x, y, 1}))
}

func newSiteAt(t *testing.T, ip netip.Addr) *site {
	t.Helper()
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

// log returns the completed requests, in order of completion.
func (s *site) log() []hit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]hit(nil), s.hits...)
}

// count returns the number of requests by path.
func (s *site) count() map[string]int {
	n := map[string]int{}
	for _, h := range s.log() {
		n[h.path]++
	}
	return n
}

// url returns the URL of a page at one of the site's hosts.
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

// apart returns the shortest time between the end of a request and the start of the next.
// It fails if two requests overlapped.
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

// rig is a crawler and its dependencies. It is its own Delegate: everything is fetched
// locally unless where and remote say otherwise.
type rig struct {
	t   testing.TB
	dir string
	db  *store.DB
	fr  *frontier.Frontier
	fe  *fetch.Fetcher
	c   *crawl.Crawler

	optOuts *deny.OptOuts

	where   func(netip.Prefix) crawl.Dispatch
	remote  func(context.Context, string, store.FetchRequest) (store.FetchReport, error)
	connect func(context.Context, string, store.FetchRequest) (store.FetchReport, error)

	checked      atomic.Int64 // pages that were fetched to compare them with reports
	sent         func(store.URL) bool
	unresponsive func(host string)
	handed       handedOver
	file         func(store.URL) (crawl.SiteFile, error)
	plugins      func(page.Page) []crawl.PluginResult

	mu           sync.Mutex
	seen         []observation
	pendingAdded map[string]int
	addrs        map[string][]netip.Addr // of hosts, for Resolve
}

// newRig returns a rig in memory, or in dir if that is not empty.
func newRig(t testing.TB, dir string, gap time.Duration, change func(*crawl.Config)) *rig {
	t.Helper()
	return newGatedRig(t, dir, gap, nil, change)
}

// newGatedRig is newRig with a Gate.
func newGatedRig(
	t testing.TB, dir string, gap time.Duration, gate *crawl.Gate, change func(*crawl.Config),
) *rig {
	t.Helper()
	return newRigOn(t, dir, store.Options{InMemory: dir == ""}, gap, gate, change)
}

// newRigOn is newGatedRig with store options.
func newRigOn(
	t testing.TB, dir string, o store.Options, gap time.Duration, gate *crawl.Gate,
	change func(*crawl.Config),
) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, pendingAdded: map[string]int{}, addrs: map[string][]netip.Addr{}}
	var err error
	r.db, err = store.Open(dir, o)
	r.fatal(err)
	t.Cleanup(func() { r.db.Close() })
	fc := frontier.Config{DB: r.db, Gap: gap}
	if gate != nil {
		fc.Node = admitting{gate: gate}
	}
	r.fr, err = frontier.New(fc, func(netip.Prefix) bool { return true })
	r.fatal(err)
	get := fetch.DefaultConfig()
	get.UserAgent = "peerd-test"
	get.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	get.Deny, err = deny.Open("", nil)
	r.fatal(err)
	r.optOuts = deny.NewOptOuts(nil, nil)
	get.Deny.OptOuts = r.optOuts
	r.fe, err = fetch.New(get)
	r.fatal(err)
	t.Cleanup(r.fe.Close)
	all, err := scope.Compile(scope.Rules{Mode: scope.ModeAny}, nil)
	r.fatal(err)
	cfg := crawl.Config{
		DB: r.db, Frontier: r.fr, Fetcher: r.fe, Scope: all, Delegate: r,
		Agent: "peerd", Workers: 8, MaxTries: 3, BackOff: time.Millisecond, Gap: gap,
		MaxBackOff: 30 * time.Millisecond, MaxThrottle: 30 * time.Millisecond, Patience: time.Hour,
		FetchTimeout: testTimeout, Gate: gate,
	}
	if change != nil {
		change(&cfg)
	}
	r.fr = cfg.Frontier
	r.c, err = crawl.New(cfg)
	r.fatal(err)
	r.c.SetCheckInterval(20 * time.Millisecond)
	return r
}

// resolves has the crawler find addresses for a host. Others do not exist.
func (r *rig) resolves(host string, addrs ...netip.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.addrs[host] = addrs
}

func (r *rig) Fetched(p store.Page) {
	if p.Check {
		r.checked.Add(1)
	}
}

func (r *rig) CheckSpace() error { return nil }

func (r *rig) Archived(a crawl.Archived) { r.handed.add(a) }

func (r *rig) File(u store.URL) (crawl.SiteFile, error) {
	if r.file == nil {
		return crawl.SiteFile{}, errors.New("no files")
	}
	return r.file(u)
}

func (r *rig) Plugins(p page.Page) []crawl.PluginResult {
	if r.plugins == nil {
		return nil
	}
	return r.plugins(p)
}

// resolving is a Delegate that looks up hosts in another way.
type resolving struct {
	crawl.Delegate
	resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

func (r resolving) Resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	return r.resolve(ctx, host)
}

// admitting is a frontier.Node with a Gate and a Quota, either of which may be nil.
type admitting struct {
	gate  *crawl.Gate
	quota *quota.Quota
}

func (l admitting) Left(string) {}

func (l admitting) FetchWait(now time.Time) time.Duration { return l.quota.Wait(now) }

func (l admitting) Admit(tx *store.Tx, e store.Entry, epoch uint64) (string, error) {
	if l.gate == nil {
		return "", nil
	}
	return l.gate.Admit(tx, e, epoch)
}

func (r *rig) Resolve(_ context.Context, host string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{a}, nil
	}
	if len(r.addrs[host]) == 0 {
		return nil, fmt.Errorf("%s does not exist", host)
	}
	return slices.Clone(r.addrs[host]), nil
}

func (r *rig) fatal(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) Dispatch(p netip.Prefix) crawl.Dispatch {
	if r.where == nil {
		return crawl.Dispatch{}
	}
	return r.where(p)
}

func (r *rig) RequestFetch(
	ctx context.Context, _ netip.Prefix, peer string, q store.FetchRequest,
) (store.FetchReport, error) {
	if r.remote == nil {
		return store.FetchReport{}, crawl.ErrNotSent
	}
	return r.remote(ctx, peer, q)
}

func (r *rig) RequestConnect(
	ctx context.Context, _ netip.Prefix, peer string, q store.FetchRequest,
) (store.FetchReport, error) {
	return r.connect(ctx, peer, q)
}

func (r *rig) Observe(_ netip.Prefix, peer string, rep store.FetchReport, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, observation{peer, rep, err})
}

func (r *rig) PendingAdded(n map[string]int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for h, k := range n {
		r.pendingAdded[h] += k
	}
}

func (r *rig) RecentlySent(u store.URL) bool { return r.sent != nil && r.sent(u) }

func (r *rig) Unresponsive(host string, _ store.Outcome) {
	if r.unresponsive != nil {
		r.unresponsive(host)
	}
}

func (r *rig) observed() []observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]observation(nil), r.seen...)
}

// own adds a host at a site to the frontier.
func (r *rig) own(host string, s *site) {
	r.t.Helper()
	r.fatal(r.fr.AddHost(host, store.SubnetOf(s.addr.Addr()), s.addr.Addr(), time.Time{}))
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

// crawl runs the crawler until the queues are empty.
func (r *rig) crawl() {
	r.t.Helper()
	stop := r.start()
	r.until("queues are empty", r.idle)
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
	end := time.After(testTimeout)
	for !cond() {
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("condition not met within %v: %s; frontier %+v",
				testTimeout, what, r.fr.Stats())
		}
	}
}

// page returns the record of u.
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

// givenUp returns the records of all URLs that were given up.
func (r *rig) givenUp() map[store.URL]store.GivenUp {
	r.t.Helper()
	all := map[store.URL]store.GivenUp{}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		return tx.EachGivenUp("", nil, func(g store.GivenUp) (bool, error) {
			all[g.URL] = g
			return true, nil
		})
	}))
	return all
}

// pending returns the number of pending URLs, by host.
func (r *rig) pending() map[string]int {
	r.t.Helper()
	n := map[string]int{}
	r.fatal(r.db.View(func(tx *store.Tx) error {
		all, err := tx.PendingHosts()
		for _, d := range all {
			n[d.Host] = d.Count
		}
		return err
	}))
	return n
}
