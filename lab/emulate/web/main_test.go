package web

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testConfig is a small web without delays.
func testConfig(sites, pages int, seed uint64) Config {
	c := DefaultConfig()
	c.Sites, c.Pages, c.Seed = sites, pages, seed
	c.Delay, c.MinDelay = 0, 0
	c.Addrs = func(site int) []netip.Addr {
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 210, byte(site), 1})}
	}
	return c
}

// serve makes and runs a web for the length of the test.
func serve(t testing.TB, cfg Config) *Web {
	t.Helper()
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w
}

// client returns a client that finds w's hosts and follows no redirects.
func client(t testing.TB, w *Web) *http.Client {
	names := w.Resolve()
	tr := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn,
		error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return nil, err
		}
		if a := names[host]; len(a) > 0 {
			host = a[0].String()
		}
		var d net.Dialer
		return d.DialContext(ctx, network, net.JoinHostPort(host, port))
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}
}

// get fetches a URL and returns the answer and its body.
func get(t testing.TB, c *http.Client, url string) (*http.Response, []byte) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// pause is what a polite client does between two requests.
func pause(d time.Duration) { <-time.After(d) }
