package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"peerd/store"
)

func tlsRoots(s *site) *tls.Config { return &tls.Config{RootCAs: s.roots()} }

func TestNewRefusesBadConfig(t *testing.T) {
	_, err := New(Config{UserAgent: "a\r\nb", MaxIdle: -1})
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"UserAgent", "TotalTimeout", "MaxBody", "MaxIdle"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("New() = %v, want it to name %s", err, want)
		}
	}
	cfg := DefaultConfig()
	cfg.UserAgent = "x/1"
	if err := cfg.Validate(); err != nil {
		t.Errorf("defaults: %v", err)
	}
}

// TestOutcomesByStatus runs responses of all kinds over one connection.
func TestOutcomesByStatus(t *testing.T) {
	s := newSite(t, "127.7.1.2", "http", func(w http.ResponseWriter, r *http.Request) {
		status, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.Header().Set("Retry-After", r.URL.Query().Get("wait"))
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(status)
		if status != 204 && status != 304 {
			w.Write([]byte("body"))
		}
	})
	f := newFetcher(t, nil)
	tests := []struct {
		path     string
		outcome  store.Outcome
		status   int
		location string
		wait     time.Duration
		body     string
		bytes    int64
	}{
		{"/200", store.OutcomeOK, 200, "", 0, "body", 4},
		{"/200?to=/x", store.OutcomeOK, 200, "", 0, "body", 4},
		{"/204", store.OutcomeOK, 204, "", 0, "", 0},
		{"/301?to=/x", store.OutcomeRedirect, 301, "/x", 0, "", 4},
		{"/302?to=http://169.254.169.254/", store.OutcomeRedirect, 302, "http://169.254.169.254/", 0, "", 4},
		{"/308?to=//other/", store.OutcomeRedirect, 308, "//other/", 0, "", 4},
		{"/301", store.OutcomeHTTPError, 301, "", 0, "", 4},
		{"/304?to=/x", store.OutcomeHTTPError, 304, "", 0, "", 0},
		{"/404", store.OutcomeHTTPError, 404, "", 0, "", 4},
		{"/500?wait=9", store.OutcomeHTTPError, 500, "", 9 * time.Second, "", 4},
		{"/429?wait=120", store.OutcomeThrottled, 429, "", 2 * time.Minute, "", 4},
		{"/503?wait=999999", store.OutcomeThrottled, 503, "", 24 * time.Hour, "", 4},
		{"/503", store.OutcomeThrottled, 503, "", 0, "", 4},
	}
	for i, tt := range tests {
		res := s.get(f, tt.path)
		if res.Err != nil || res.Outcome != tt.outcome || res.Status != tt.status ||
			res.Location != tt.location ||
			res.RetryAfter != tt.wait || string(res.Body) != tt.body || res.Bytes != tt.bytes {
			t.Errorf("%s: %v %d %q %v %q %d %v", tt.path, res.Outcome, res.Status, res.Location,
				res.RetryAfter, res.Body, res.Bytes, res.Err)
		}
		if res.Timing.Reused != (i > 0) {
			t.Errorf("%s: reused = %v", tt.path, res.Timing.Reused)
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

func TestRequestHead(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	var got http.Header
	var host string
	s := newSite(t, "127.7.1.3", "http", func(w http.ResponseWriter, r *http.Request) {
		got, host = r.Header.Clone(), r.Host
		w.Header().Set("Set-Cookie", "a=b; Path=/")
	})
	f := newFetcher(t, nil)
	for range 2 {
		if res := s.get(f, "/"); res.Outcome != store.OutcomeOK {
			t.Fatal(res.Outcome, res.Err)
		}
	}
	if ua := got.Get("User-Agent"); ua != "peerd/test (+http://example.org/bot)" {
		t.Errorf("User-Agent %q", ua)
	}
	if got.Get("Accept-Encoding") != acceptEncoding || got.Get("Cookie") != "" ||
		got.Get("Referer") != "" {
		t.Errorf("head %v", got)
	}
	if want := "site.example:" + strconv.Itoa(int(s.port)); host != want {
		t.Errorf("Host %q, want %q", host, want)
	}
}

// TestConnectionKey verifies that a connection is used for one host at one address.
func TestConnectionKey(t *testing.T) {
	echo := func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(r.Host)) }
	s := newSite(t, "0.0.0.0", "http", echo)
	f := newFetcher(t, nil)
	do := func(host, addr string) Result {
		return f.Do(context.Background(), Request{URL: s.url("http", host, "/"),
			Addr: netip.MustParseAddr(addr)})
	}
	steps := []struct {
		host, addr string
		reused     bool
	}{
		{"a.example", "127.7.2.1", false},
		{"a.example", "127.7.2.1", true},
		{"a.example", "::ffff:127.7.2.1", true},
		{"a.example", "127.7.2.2", false},
		{"b.example", "127.7.2.1", false},
		{"a.example", "127.7.2.1", true},
		{"a.example", "127.7.2.2", true},
	}
	for i, st := range steps {
		res := do(st.host, st.addr)
		if res.Outcome != store.OutcomeOK || res.Timing.Reused != st.reused ||
			!strings.HasPrefix(string(res.Body), st.host) {
			t.Errorf("step %d: %v reused=%v %q %v", i, res.Outcome, res.Timing.Reused, res.Body,
				res.Err)
		}
		if st.reused && (res.Timing.Connect != 0 || res.Timing.TLS != 0) {
			t.Errorf("step %d: reused with %+v", i, res.Timing)
		}
		if !st.reused && res.Timing.Connect <= 0 {
			t.Errorf("step %d: new with %+v", i, res.Timing)
		}
	}
}

func TestBodyNotTaken(t *testing.T) {
	s := newSite(t, "127.7.1.4", "http", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.URL.Path[1:])
		w.Header().Set("Content-Type", "image/png")
		if r.URL.RawQuery != "chunked" {
			w.Header().Set("Content-Length", strconv.Itoa(n))
		}
		w.Write(make([]byte, n))
	})
	f := newFetcher(t, nil)
	for _, tt := range []struct {
		path string
		kept bool
	}{
		{"/10", true}, {"/65536", true}, {"/65537", false}, {"/3000000", false},
		{"/60000?chunked", true}, {"/300000?chunked", false},
	} {
		res := f.Do(t.Context(), Request{URL: s.url("http", "site.example", tt.path), Addr: s.addr,
			HTML: true})
		if res.Outcome != store.OutcomeNotHTML || res.Body != nil ||
			res.ContentType != "image/png" || res.Err != nil {
			t.Errorf("%s: %v %q %v", tt.path, res.Outcome, res.ContentType, res.Err)
		}
		next := f.Do(t.Context(), Request{URL: s.url("http", "site.example", "/1"), Addr: s.addr,
			HTML: true})
		if next.Timing.Reused != tt.kept {
			t.Errorf("%s: connection kept = %v", tt.path, next.Timing.Reused)
		}
	}
}

func TestTLS(t *testing.T) {
	var sni string
	s := newSite(t, "127.7.1.5", "h2", func(w http.ResponseWriter, r *http.Request) {
		sni = r.TLS.ServerName
		w.Header().Set("Content-Type", "image/png")
		w.Write(make([]byte, 100_000))
	})
	good := newFetcher(t, func(c *Config) { c.TLS = tlsRoots(s) })
	do := func(f *Fetcher, host string, image bool) Result {
		return f.Do(context.Background(), Request{
			URL: s.url("https", host, "/"), Addr: s.addr, HTML: !image,
		})
	}
	res := do(good, "example.com", true)
	if res.Outcome != store.OutcomeOK || len(res.Body) != 100_000 || res.Timing.TLS <= 0 ||
		res.Timing.Connect <= 0 || sni != "example.com" {
		t.Fatalf("%v %d %+v %q %v", res.Outcome, len(res.Body), res.Timing, sni, res.Err)
	}
	// Over HTTP/2, a body that is not wanted costs a stream, not the connection.
	for range 3 {
		if res := do(good, "example.com", false); res.Outcome != store.OutcomeNotHTML ||
			!res.Timing.Reused {
			t.Errorf("outcome %v, timing %+v, %v, want NotHTML, reused",
				res.Outcome, res.Timing, res.Err)
		}
	}
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
	hits := s.hits.Load()
	if res := do(good, "wrong.invalid", true); res.Outcome != store.OutcomeTLS {
		t.Errorf("wrong name: %v %v", res.Outcome, res.Err)
	}
	if res := do(newFetcher(t, nil), "example.com", true); res.Outcome != store.OutcomeTLS {
		t.Errorf("unknown root: %v %v", res.Outcome, res.Err)
	}
	if n := s.hits.Load(); n != hits {
		t.Errorf("%d requests over invalid sessions, want none", n-hits)
	}
	plain := newSite(t, "127.7.1.6", "http", func(http.ResponseWriter, *http.Request) {})
	res = good.Do(t.Context(), Request{URL: plain.url("https", "example.com", "/"),
		Addr: plain.addr})
	if res.Outcome != store.OutcomeTLS {
		t.Errorf("no TLS there: %v %v", res.Outcome, res.Err)
	}
}

func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.7.1.7:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	res := newFetcher(t, nil).Do(t.Context(), Request{URL: store.URL("http://" + at + "/"),
		Addr: netip.MustParseAddrPort(at).Addr()})
	if res.Outcome != store.OutcomeConnect || res.Err == nil {
		t.Errorf("outcome %v, error %v, want Connect", res.Outcome, res.Err)
	}
}

func TestCallerGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := newSite(t, "127.7.1.8", "http", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	})
	f := newFetcher(t, nil)
	res := f.Do(ctx, Request{URL: s.url("http", "site.example", "/"), Addr: s.addr})
	if res.Outcome != store.OutcomeNone || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("outcome %v, error %v, want None, Canceled", res.Outcome, res.Err)
	}
	res = f.Do(ctx, Request{URL: s.url("http", "site.example", "/"), Addr: s.addr})
	if res.Outcome != store.OutcomeNone || s.hits.Load() != 1 {
		t.Errorf("outcome %v, %d requests, want None, 1", res.Outcome, s.hits.Load())
	}
}

func TestActive(t *testing.T) {
	f := newFetcher(t, nil)
	during := 0
	s := newSite(t, "127.7.1.13", "http", func(http.ResponseWriter, *http.Request) {
		during = f.Active()
	})
	if s.get(f, "/"); during != 1 || f.Active() != 0 {
		t.Errorf("%d requests in progress during one, %d later, want 1 and 0", during, f.Active())
	}
}

func TestCallersDeadline(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := newSite(t, "127.7.1.12", "http", func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	})
	res := newFetcher(t, nil).Do(ctx, Request{URL: s.url("http", "site.example", "/"),
		Addr: s.addr})
	if res.Outcome != store.OutcomeTimeout || !errors.Is(res.Err, context.DeadlineExceeded) {
		t.Errorf("outcome %v, error %v, want Timeout, DeadlineExceeded", res.Outcome, res.Err)
	}
}

func TestCloseKeepsNothing(t *testing.T) {
	s := newSite(t, "127.7.1.9", "http", func(http.ResponseWriter, *http.Request) {})
	f := newFetcher(t, nil)
	s.get(f, "/")
	f.Close()
	for range 2 {
		if res := s.get(f, "/"); res.Outcome != store.OutcomeOK || res.Timing.Reused {
			t.Errorf("outcome %v, timing %+v, want OK, not reused", res.Outcome, res.Timing)
		}
	}
}
