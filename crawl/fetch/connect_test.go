package fetch

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"peerd/crawl/deny"
	"peerd/store"
)

func TestConnect(t *testing.T) {
	asked := false
	s := newSite(t, "127.0.0.1", "http", func(http.ResponseWriter, *http.Request) { asked = true })
	f := newFetcher(t, nil)
	u := s.url("http", "a.test", "/x")
	o, took, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.1"))
	if o != store.OutcomeOK || took <= 0 || err != nil || idle(f) != 0 {
		t.Errorf("Connect() = %v, %v, %v, %d idle, want OK, none idle", o, took, err, idle(f))
	}
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.99")); o.Answered() ||
		o == store.OutcomeNone || err == nil {
		t.Errorf("no server: %v, %v, want an error and no response", o, err)
	}
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("10.0.0.1")); !errors.Is(err,
		ErrForbiddenAddr) || o.Answered() {
		t.Errorf("forbidden: %v, %v", o, err)
	}
	if o, _, err := f.Connect(t.Context(), "gopher://a.test/",
		netip.MustParseAddr("127.0.0.1")); o.Answered() || err == nil {
		t.Errorf("no URL: %v, %v", o, err)
	}
	for _, u := range []store.URL{"http://a.test:25/", "https://a.test:22/x",
		"http://a.test:6667/"} {
		if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.1")); !errors.Is(err,
			ErrForbiddenPort) || o != store.OutcomeRefused {
			t.Errorf("%s: %v, %v", u, o, err)
		}
		if res := f.Do(t.Context(),
			Request{URL: u, Addr: netip.MustParseAddr("127.0.0.1")}); !errors.Is(res.Err,
			ErrForbiddenPort) || res.Outcome != store.OutcomeRefused {
			t.Errorf("%s: %v, %v", u, res.Outcome, res.Err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if o, _, err := f.Connect(gone, u, netip.MustParseAddr("127.0.0.1")); o != store.OutcomeNone ||
		!errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, %v", o, err)
	}
	if asked {
		t.Error("a request was sent, want none")
	}
}

// TestDeny: nothing is sent to a host that is denied, not even over an idle connection.
func TestDeny(t *testing.T) {
	requests := 0
	s := newSite(t, "127.0.0.1", "http", func(http.ResponseWriter, *http.Request) { requests++ })
	addr := netip.MustParseAddr("127.0.0.1")
	u := s.url("http", "a.test", "/")
	file := filepath.Join(t.TempDir(), "deny")
	list, err := deny.Open(file, slog.Default())
	if err != nil {
		t.Fatal(err)
	}
	f := newFetcher(t, func(c *Config) { c.Deny = list })
	if res := f.Do(t.Context(), Request{URL: u, Addr: addr}); res.Outcome != store.OutcomeOK {
		t.Fatalf("before: %v, %v", res.Outcome, res.Err)
	}
	for _, text := range []string{"a.test", "127.0.0.0/24"} {
		r, err := deny.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := deny.Add(file, r); err != nil {
			t.Fatal(err)
		}
		res := f.Do(t.Context(), Request{URL: u, Addr: addr})
		o, _, err := f.Connect(t.Context(), u, addr)
		if res.Outcome != store.OutcomeDenied || o != store.OutcomeDenied ||
			!errors.Is(err, deny.ErrDenied) {
			t.Errorf("%s: Do %v, Connect %v, %v, want Denied", text, res.Outcome, o, err)
		}
		if all := f.Rank(u, []netip.Addr{addr}); len(all) > 0 {
			t.Errorf("%s: Rank() = %v, want none", text, all)
		}
		if _, err := deny.Remove(file, r); err != nil {
			t.Fatal(err)
		}
	}
	if requests != 1 {
		t.Errorf("the site got %d requests, want 1", requests)
	}
}

// TestConnectGuardsAndTimesOut verifies that the address that was reached is checked, and that
// Config.ConnectTimeout applies.
func TestConnectGuardsAndTimesOut(t *testing.T) {
	s := newSite(t, "127.0.0.1", "http", func(http.ResponseWriter, *http.Request) {})
	u := s.url("http", "a.test", "/")
	f := newFetcher(t, func(c *Config) {
		c.Guard = NewGuard(prefixes("127.0.0.2/32"))
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, _ := net.SplitHostPort(addr)
			return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:"+port)
		}
	})
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.2")); !errors.Is(err,
		ErrForbiddenAddr) || o.Answered() {
		t.Errorf("led elsewhere: %v, %v", o, err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := newFetcher(t, func(c *Config) {
			c.ConnectTimeout = 20 * time.Millisecond
			c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, errors.New("gave up")
			}
		})
		if o, took, err := f.Connect(t.Context(), u,
			netip.MustParseAddr("127.0.0.1")); o != store.OutcomeTimeout ||
			took != 20*time.Millisecond || err == nil {
			t.Errorf("Connect() = %v, %v, %v, want Timeout after 20ms", o, took, err)
		}
	})
}
