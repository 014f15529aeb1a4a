package admin

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a Node whose answers a test sets.
type fake struct {
	status  Status
	peers   []Peer
	subnets []Subnet
	queue   []Host
	links   func(ctx context.Context, yield func(Link) error) error
	seed    func(ctx context.Context, urls []string) (SeedResult, error)

	leave func(ctx context.Context) error // in the place of the end of Leave

	mu      sync.Mutex
	seeded  [][]string
	limit   time.Duration // of Leave
	stopped chan struct{} // closed by Stop
	once    sync.Once
}

var _ Node = (*fake)(nil)

func newFake() *fake { return &fake{stopped: make(chan struct{})} }

func (f *fake) Status() Status    { return f.status }
func (f *fake) Peers() []Peer     { return f.peers }
func (f *fake) Subnets() []Subnet { return f.subnets }
func (f *fake) Queue() []Host     { return f.queue }
func (f *fake) Stop()             { f.once.Do(func() { close(f.stopped) }) }

// Leave tells of two subnets that leave, one after the other.
func (f *fake) Leave(ctx context.Context, limit time.Duration, tell func(Drain) error) error {
	f.mu.Lock()
	f.limit = limit
	f.mu.Unlock()
	for left := int64(2); left >= 0; left-- {
		if left == 0 && f.leave != nil {
			return f.leave(ctx)
		}
		if err := tell(Drain{Subnets: 2, Left: left, Over: left == 0}); err != nil {
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

func (f *fake) Links(ctx context.Context, yield func(Link) error) error {
	if f.links == nil {
		return nil
	}
	return f.links(ctx, yield)
}

// someLinks yields n pages.
func someLinks(n int) func(context.Context, func(Link) error) error {
	return func(_ context.Context, yield func(Link) error) error {
		for i := range n {
			if err := yield(Link{URL: fmt.Sprintf("http://a.example/%d?a&b", i), Status: 200}); err != nil {
				return err
			}
		}
		return nil
	}
}

// serve runs a server for node until the end of the test and returns its
// api.json and what ends it early.
func serve(t *testing.T, node Node) (file string, stop func()) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "api.json")
	s, err := Listen(Config{Addr: "127.0.0.1:0", File: file, Node: node})
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
	late := time.After(time.Minute)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("waited in vain")
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
