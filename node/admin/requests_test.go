package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Drain returns when no handler runs, although one writes to a client that has stopped reading, and
// one waits. Then the server says only that the peer is stopping.
func TestDrain(t *testing.T) {
	f := newFake()
	var running atomic.Int32
	begun := make(chan struct{}, 2)
	begin := func() (end func()) {
		running.Add(1)
		begun <- struct{}{}
		return func() { running.Add(-1) }
	}
	f.links = func(_ context.Context, yield func(Link) error) error {
		defer begin()()
		return yield(Link{URL: strings.Repeat("a", 32<<20)}) // more than sockets buffer
	}
	f.seed = func(ctx context.Context, _ []string) (SeedResult, error) {
		defer begin()()
		<-ctx.Done()
		return SeedResult{}, fmt.Errorf("%w: %w", ErrStopping, ctx.Err())
	}
	file := filepath.Join(t.TempDir(), "api.json")
	s, err := Listen(Config{Node: f, Addr: "127.0.0.1:0", File: file})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() = %v", err)
		}
	}()
	await(t, func() bool { _, err := readAPIFile(file); return err == nil })
	c := dialed(t, file)

	seeded := make(chan error, 1)
	go func() { _, err := c.Seed(t.Context(), []string{"http://a.example/"}); seeded <- err }()
	<-begun
	resp := request(t, file, http.MethodGet, pathLinks, "", nil)
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	<-begun
	start := time.Now()
	s.Drain()
	if took := time.Since(start); took > writeTimeout/2 {
		t.Errorf("Drain() took %v", took)
	}
	if n := running.Load(); n != 0 {
		t.Errorf("%d handlers run after Drain()", n)
	}
	if err := <-seeded; !errors.Is(err, ErrStopping) {
		t.Errorf("Seed() during Drain() = %v, want ErrStopping", err)
	}
	if _, err := c.Status(t.Context()); !errors.Is(err, ErrStopping) {
		t.Errorf("Status() after Drain() = %v, want ErrStopping", err)
	}
	if err := c.call(t.Context(), http.MethodGet, pathAlive, nil, &struct{}{}); err != nil {
		t.Errorf("%s after Drain(): %v", pathAlive, err)
	}
}
