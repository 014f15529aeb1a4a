package node

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/node/config"
	"peerd/node/emulate/web"
	"peerd/overlay/overlaytest"
)

// options are those of a peer on loopback with a fresh home.
func options(t *testing.T) Options {
	t.Helper()
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.MinDelay = config.Duration{Duration: time.Millisecond}
	c.Overlay.NurseryAge = config.Duration{Duration: 100 * time.Millisecond}
	c.Overlay.BatchMaxAge = config.Duration{Duration: 100 * time.Millisecond}
	c.Overlay.Settle = config.Duration{Duration: 100 * time.Millisecond}
	return Options{Home: home, Config: c, Profile: config.DefaultProfile(), UserAgent: "peerd-test"}
}

// newNode builds a peer that must be built.
func newNode(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits until cond holds, for a minute at the least: the machine may stand
// still for a while.
func until(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	overlaytest.Within(t, max(limit, time.Minute), what, cond)
}

// running runs a peer until the function that it returns is called, which
// fails the test when the peer does not stop in time or with an error.
func running(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Error("Run has not returned 10 s after the end of its context")
		}
	}
}

// serveWeb serves a web until the function that it returns is called.
func serveWeb(t *testing.T, c web.Config) (w *web.Web, stop func()) {
	t.Helper()
	w, err := web.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- w.Run(ctx) }()
	return w, func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	}
}

// Two peers with everything in them crawl, are stopped in the middle of it, and
// leave no goroutine behind.
func TestNothingRunsAfterTheStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w, stopWeb := serveWeb(t, web.Config{
		Sites: 4, Pages: 400, Seed: 3, MinDelay: time.Millisecond, Delay: 20 * time.Millisecond,
		Addrs: func(site int) []netip.Addr { return []netip.Addr{netip.AddrFrom4([4]byte{127, 110, byte(site), 1})} },
	})
	o := options(t)
	o.Config.Crawl.Resolve = w.Resolve()
	first := newNode(t, o)
	stopFirst := running(t, first)
	o2 := options(t)
	o2.Config.Crawl.Resolve = w.Resolve()
	o2.Config.Bootstrap = first.Addrs()
	second := newNode(t, o2)
	stopSecond := running(t, second)
	until(t, 15*time.Second, "the peers know each other", func() bool {
		return first.Status().Directory == 1 && second.Status().Directory == 1
	})
	r, err := second.Seed(t.Context(), []string{w.Seed()})
	if err != nil || r.Accepted != 1 {
		t.Fatalf("seed: %+v, %v", r, err)
	}
	// Who of them owns what is left to chance, as their keys are.
	until(t, 15*time.Second, "the crawl is under way", func() bool {
		return first.Status().PagesFetched+second.Status().PagesFetched > 20
	})
	if a := w.Audit(); a.PagesFetched == a.PagesExpected {
		t.Error("the crawl was over before the stop: nothing was tested")
	}
	begin := time.Now()
	stopSecond()
	stopFirst()
	t.Logf("both stopped after %v", time.Since(begin))
	stopWeb()
	goleak.VerifyNone(t, before)
}

// A peer that is built and never run leaves nothing behind either; so does one
// whose last part could not be built.
func TestNothingRunsWithoutRun(t *testing.T) {
	before := goleak.IgnoreCurrent()
	o := options(t)
	n := newNode(t, o)
	o2 := options(t)
	o2.Config.API = n.api.Addr() // in use
	if _, err := New(o2); err == nil {
		t.Error("two peers have one API address")
	}
	if err := n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if n, err := New(o2); err != nil {
		t.Errorf("the API address is not free again: %v", err)
	} else if err := n.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	goleak.VerifyNone(t, before)
}

// A home keeps to the rules of its first start.
func TestHomeKeepsItsNetwork(t *testing.T) {
	o := options(t)
	start := func(o Options) error {
		n, err := New(o)
		if err != nil {
			return err
		}
		return n.Close()
	}
	if err := start(o); err != nil {
		t.Fatal(err)
	}
	other := o
	other.Profile.Limits.MaxDepth = 3
	if err := start(other); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("with other rules: %v, want ErrOtherNetwork", err)
	}
	other = o
	other.Profile.Name = "another"
	if err := start(other); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("with another name: %v, want ErrOtherNetwork", err)
	}
	same := o
	same.Profile.Seeds = []string{"http://a.example/"} // no rule in this mode
	same.Profile.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1/p2p/" + mustID(t, o)}
	if err := start(same); err != nil {
		t.Errorf("with the same rules: %v", err)
	}
}

func mustID(t *testing.T, o Options) string {
	t.Helper()
	id, err := o.Home.PeerID()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}
