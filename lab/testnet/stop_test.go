package testnet

import (
	"context"
	"errors"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/lab/emulate/web"
	"peerd/node"
	"peerd/node/config"
	"peerd/overlay/overlaytest"
)

// peerOptions returns the options of a peer on loopback with a new home directory.
func peerOptions(t *testing.T) node.Options {
	t.Helper()
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Listen = []string{"/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	c.Crawl.MinDelay = config.Duration{Duration: time.Millisecond}
	c.Overlay.UnclaimedAge = config.Duration{Duration: 100 * time.Millisecond}
	c.Overlay.BatchMaxAge = config.Duration{Duration: 100 * time.Millisecond}
	c.Overlay.Settle = config.Duration{Duration: 100 * time.Millisecond}
	return node.Options{Home: home, Config: c, Profile: config.DefaultProfile(),
		UserAgent: "peerd-test"}
}

// mustPeer builds a peer; an error ends the test.
func mustPeer(t *testing.T, o node.Options) *node.Node {
	t.Helper()
	n, err := node.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// running runs a peer and returns a function that stops it, which fails the test if the peer
// returns an error or does not stop in time.
func running(t *testing.T, n *node.Node) (stop func()) {
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
				t.Errorf("Run() = %v, want nil", err)
			}
		case <-time.After(5 * time.Minute):
			t.Error("Run() had not returned five minutes after its context ended")
		}
	}
}

// serveWeb serves a web and returns a function that stops it.
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

// Two complete peers that are stopped during a crawl leave no goroutine running.
func TestNothingRunsAfterTheStop(t *testing.T) {
	before := goleak.IgnoreCurrent()
	w, stopWeb := serveWeb(t, web.Config{
		Sites: 4, Pages: 4000, Seed: 3, MinDelay: time.Millisecond, Delay: 20 * time.Millisecond,
		Addrs: func(site int) []netip.Addr {
			return []netip.Addr{netip.AddrFrom4([4]byte{127, 110, byte(site), 1})}
		},
	})
	o := peerOptions(t)
	o.Config.Crawl.Resolve = w.Resolve()
	first := mustPeer(t, o)
	stopFirst := running(t, first)
	o2 := peerOptions(t)
	o2.Config.Crawl.Resolve = w.Resolve()
	o2.Config.Bootstrap = first.Addrs()
	second := mustPeer(t, o2)
	stopSecond := running(t, second)
	overlaytest.Within(t, 5*time.Minute, "the peers know each other", func() bool {
		return first.Status().Directory == 1 && second.Status().Directory == 1
	})
	r, err := second.Seed(t.Context(), []string{w.Seed()})
	if err != nil || r.Accepted != 1 {
		t.Fatalf("seed: %+v, %v", r, err)
	}
	// The keys are random, and so is which peer owns which subnet.
	overlaytest.Within(t, 5*time.Minute, "the crawl is under way", func() bool {
		return first.Status().PagesFetched+second.Status().PagesFetched > 20
	})
	if a := w.Audit(); a.PagesFetched == a.PagesExpected {
		t.Error("the crawl was over before the peers were stopped")
	}
	begin := time.Now()
	stopSecond()
	stopFirst()
	t.Logf("both stopped after %v", time.Since(begin))
	stopWeb()
	goleak.VerifyNone(t, before)
}
