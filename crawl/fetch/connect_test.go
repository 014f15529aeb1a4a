package fetch

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"peerd/store"
)

func TestConnect(t *testing.T) {
	asked := false
	s := newSite(t, "127.0.0.1", "http", func(http.ResponseWriter, *http.Request) { asked = true })
	f := newFetcher(t, nil)
	u := s.url("http", "a.test", "/x")
	o, took, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.1"))
	if o != store.OutcomeOK || took <= 0 || err != nil || idle(f) != 0 {
		t.Errorf("%v after %v, %v; %d idle", o, took, err, idle(f))
	}
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.99")); o.Answered() || o == store.OutcomeNone || err == nil {
		t.Errorf("nobody there: %v, %v", o, err)
	}
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("10.0.0.1")); !errors.Is(err, ErrForbiddenAddr) || o.Answered() {
		t.Errorf("forbidden: %v, %v", o, err)
	}
	if o, _, err := f.Connect(t.Context(), "gopher://a.test/", netip.MustParseAddr("127.0.0.1")); o.Answered() || err == nil {
		t.Errorf("no URL: %v, %v", o, err)
	}
	for _, u := range []store.URL{"http://a.test:25/", "https://a.test:22/x", "http://a.test:6667/"} {
		if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.1")); !errors.Is(err, ErrForbiddenPort) || o != store.OutcomeRefused {
			t.Errorf("%s: %v, %v", u, o, err)
		}
		if res := f.Do(t.Context(), Request{URL: u, Addr: netip.MustParseAddr("127.0.0.1")}); !errors.Is(res.Err, ErrForbiddenPort) || res.Outcome != store.OutcomeRefused {
			t.Errorf("%s: %v, %v", u, res.Outcome, res.Err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if o, _, err := f.Connect(gone, u, netip.MustParseAddr("127.0.0.1")); o != store.OutcomeNone || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v, %v", o, err)
	}
	if asked {
		t.Error("something was asked")
	}
}

// The address that a connection reached is checked, too, and a server that does
// not answer costs ConnectTimeout.
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
	if o, _, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.2")); !errors.Is(err, ErrForbiddenAddr) || o.Answered() {
		t.Errorf("led elsewhere: %v, %v", o, err)
	}
	f = newFetcher(t, func(c *Config) {
		c.ConnectTimeout = 20 * time.Millisecond
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, errors.New("gave up")
		}
	})
	if o, took, err := f.Connect(t.Context(), u, netip.MustParseAddr("127.0.0.1")); o != store.OutcomeTimeout || took < 20*time.Millisecond || err == nil {
		t.Errorf("%v after %v, %v", o, took, err)
	}
}
