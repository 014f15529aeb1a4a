package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"peerd/node/admin"
	"peerd/node/config"
	"peerd/overlay/overlaytest"
)

// options returns those of a peer on loopback with a new home.
func options(t testing.TB) Options {
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
	return Options{Home: home, Config: c, Profile: config.DefaultProfile(), UserAgent: "peerd-test"}
}

// newNode builds a peer.
func newNode(t *testing.T, o Options) *Node {
	t.Helper()
	n, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// until waits until cond holds, for at least five minutes: the machine may be busy.
func until(t *testing.T, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	overlaytest.Within(t, max(limit, 5*time.Minute), what, cond)
}

// running runs a peer until stop is called, which checks that the peer stops in time and without
// error.
func running(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	return sync.OnceFunc(func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Errorf("Run() = %v", err)
			}
		case <-time.After(5 * time.Minute):
			t.Error("Run() has not returned five minutes after the end of its context")
		}
	})
}

// everything returns options with all parts that settings switch on.
func everything(t *testing.T) Options {
	t.Helper()
	o := options(t)
	c := &o.Config
	c.Archive.Enabled, c.Search.Enabled, c.Search.Ranks = true, true, true
	c.Collect.Enabled, c.Events.Enabled, c.Pprof = true, true, true
	c.Page.Listen, c.Replay.Listen = "127.0.0.1:0", "127.0.0.1:0"
	c.LocalSites = map[string]string{"http://a.example/": t.TempDir()}
	c.Plugins.Publishers = []string{mustID(t, o)}
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(collector.Close)
	c.Traces.Endpoint = collector.URL
	return o
}

// A Node that has run leaves no goroutine.
func TestRunLeavesNothing(t *testing.T) {
	o := everything(t)
	before := goleak.IgnoreCurrent()
	n := newNode(t, o)
	stop := running(t, n)
	n.addSpan("test", time.Now(), nil)
	stop()
	goleak.VerifyNone(t, before)
}

// A Node that was built but not run leaves no goroutine and no socket. Neither does New if its
// last step fails.
func TestCloseWithoutRun(t *testing.T) {
	o, o2 := everything(t), everything(t)
	before := goleak.IgnoreCurrent()
	n := newNode(t, o)
	o2.Config.API = n.api.Addr() // in use
	if _, err := New(o2); err == nil {
		t.Error("New() with a used API address succeeded")
	}
	if err := n.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if n, err := New(o2); err != nil {
		t.Errorf("New() after Close() of the other peer = %v", err)
	} else if err := n.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	goleak.VerifyNone(t, before)
}

// A home is bound to the rules of its first start.
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
		t.Errorf("New() with other rules = %v, want ErrOtherNetwork", err)
	}
	other = o
	other.Profile.Name = "another"
	if err := start(other); !errors.Is(err, ErrOtherNetwork) {
		t.Errorf("New() with another name = %v, want ErrOtherNetwork", err)
	}
	same := o
	same.Profile.Seeds = []string{"http://a.example/"} // not part of the rules in this mode
	same.Profile.Bootstrap = []string{"/ip4/127.0.0.1/tcp/1/p2p/" + mustID(t, o)}
	if err := start(same); err != nil {
		t.Errorf("New() with the same rules = %v", err)
	}
}

// A one-shot crawl opens no page to others, and says that it waits for its hours, also in the home
// of a collector.
func TestAlone(t *testing.T) {
	o := everything(t)
	o.Alone = true
	o.Config.Crawl.Hours = config.Never
	n := newNode(t, o)
	defer n.Close()
	if n.sitePage != nil || n.replay != nil {
		t.Error("the page for owners of web sites, or the replay, is open")
	}
	if got := n.progress(time.Now()); !strings.Contains(got, "crawl.hours") {
		t.Errorf("progress() = %q, want it to name crawl.hours", got)
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

// A New that fails in its last step leaves the address of the admin API to others.
func TestFailedNewClosesAPI(t *testing.T) {
	o := options(t)
	n := newNode(t, o)
	o.Config.API = n.api.Addr()
	bad := []admin.RetryRequest{{URL: "no URL"}}
	if err := errors.Join(n.db.PutMeta(metaRetries, bad), n.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := New(o); err == nil {
		t.Fatal("New() accepted a plan that is not valid")
	}
	ln, err := net.Listen("tcp", o.Config.API)
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}
