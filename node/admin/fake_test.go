package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Node with results set by a test.
type fake struct {
	status  Status
	peers   []Peer
	subnets []Subnet
	queue   []Host
	links   func(ctx context.Context, yield func(Link) error) error
	robots  func(host string, refresh bool) ([]RobotsFile, error)
	seed    func(ctx context.Context, urls []string) (SeedResult, error)

	givenUp []GivenUp
	events  []Event // guarded by mu
	retried []RetryRequest
	paused  []time.Duration // -1: resumed

	leave func(ctx context.Context) error // replaces the last report of Leave

	mu      sync.Mutex
	seeded  [][]string
	limit   time.Duration // of Leave
	stopped chan struct{} // closed by Stop
	once    sync.Once
}

var _ Node = (*fake)(nil)

func newFake() *fake { return &fake{stopped: make(chan struct{})} }

func (f *fake) Servers() []Site               { return nil }
func (f *fake) Moves() []Move                 { return nil }
func (f *fake) RecentPages() []Page           { return nil }
func (f *fake) NewPages() []Page              { return f.newPages() }
func (f *fake) Gain() Gain                    { return Gain{Strategy: "proxy"} }
func (f *fake) Limits() []Limit               { return nil }
func (f *fake) Settings() []Setting           { return nil }
func (f *fake) DenyList() ([]DenyRule, error) { return nil, nil }
func (f *fake) History() []Sample             { return nil }
func (f *fake) Disk() Disk                    { return Disk{} }
func (f *fake) Placement(_ context.Context, of string) (Placement, error) {
	return Placement{Of: of}, nil
}

func (f *fake) Trace(_ context.Context, url string) (Trace, error) {
	return Trace{URL: url}, nil
}

func (f *fake) Events() []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

func (f *fake) Status() Status    { return f.status }
func (f *fake) Peers() []Peer     { return f.peers }
func (f *fake) Subnets() []Subnet { return f.subnets }
func (f *fake) Queue() []Host     { return f.queue }
func (f *fake) Robots(host string, refresh bool) ([]RobotsFile, error) {
	if f.robots == nil {
		return nil, nil
	}
	return f.robots(host, refresh)
}

func (f *fake) Pause(d time.Duration) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.paused = append(f.paused, d)
	return nil
}

func (f *fake) Resume() error { return f.Pause(-1) }

func (f *fake) Reload() (Reloaded, error) {
	if f.seed != nil { // a test's failure
		return Reloaded{}, errTest
	}
	return Reloaded{Applied: []string{"crawl.hours = x"}}, nil
}

func (f *fake) Search(_ context.Context, query string, offset, limit int) (SearchResult, error) {
	if query == "" {
		return SearchResult{}, ErrBadRequest
	}
	return SearchResult{Offset: offset, Total: limit, Hits: []SearchHit{{URL: query}}}, nil
}
func (f *fake) Stop() { f.once.Do(func() { close(f.stopped) }) }

// Leave reports two subnets that leave, one after the other.
func (f *fake) Leave(ctx context.Context, limit time.Duration, report func(Drain) error) error {
	f.mu.Lock()
	f.limit = limit
	f.mu.Unlock()
	for left := int64(2); left >= 0; left-- {
		if left == 0 && f.leave != nil {
			return f.leave(ctx)
		}
		if err := report(Drain{Subnets: 2, Remaining: left, Done: left == 0}); err != nil {
			return err
		}
	}
	return nil
}

func (f *fake) Seed(ctx context.Context, urls []string) (SeedResult, error) {
	f.mu.Lock()
	f.seeded = append(f.seeded, urls)
	f.mu.Unlock()
	if f.seed != nil {
		return f.seed(ctx, urls)
	}
	return SeedResult{Accepted: len(urls)}, nil
}

func (f *fake) Changed(_ context.Context, urls []string) (SeedResult, error) {
	return SeedResult{Known: len(urls)}, nil
}

func (f *fake) Links(ctx context.Context, _ string, yield func(Link) error) error {
	if f.links == nil {
		return nil
	}
	return f.links(ctx, yield)
}

// GivenUp yields those of a host, by the beginning of their URLs.
func (f *fake) GivenUp(_ context.Context, host string, yield func(GivenUp) error) error {
	for _, g := range f.givenUp {
		if strings.HasPrefix(g.URL, "http://"+host) {
			if err := yield(g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *fake) Retry(_ context.Context, r RetryRequest) (RetryResult, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.retried = append(f.retried, r)
	return RetryResult{Queued: len(f.givenUp)}, nil
}

// someLinks yields n pages.
func someLinks(n int) func(context.Context, func(Link) error) error {
	return func(_ context.Context, yield func(Link) error) error {
		for i := range n {
			if err := yield(Link{URL: fmt.Sprintf("http://a.example/%d?a&b", i),
				Status: 200}); err != nil {
				return err
			}
		}
		return nil
	}
}

// serve runs a server for node until the end of the test. It returns its api.json and a function
// that stops it early.
func serve(t *testing.T, node Node) (file string, stop func()) {
	t.Helper()
	return serveConfig(t, Config{Node: node})
}

// serveConfig is serve with more settings.
func serveConfig(t *testing.T, cfg Config) (file string, stop func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "api.json")
	cfg.Addr, cfg.File = "127.0.0.1:0", file
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				t.Errorf("Run: %v", err)
			}
		})
	}
	t.Cleanup(stop)
	await(t, func() bool { _, err := readAPIFile(file); return err == nil })
	return file, stop
}

// await polls until ok, for at most a minute.
func await(t *testing.T, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.After(5 * time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("condition not met within a minute")
		}
	}
}

func dialed(t *testing.T, file string) *Client {
	t.Helper()
	c, err := Dial(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var errTest = errors.New("planned by the test")

// newPages returns a page for each event.
func (f *fake) newPages() (all []Page) {
	for _, e := range f.Events() {
		all = append(all, Page{Seq: e.Seq, URL: e.Text})
	}
	return all
}
