package fetch

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"peerd/internal/waittest"
	"peerd/store"
)

func TestMain(m *testing.M) {
	waittest.Parallel()
	if *benchServerFlag {
		serveBench()
		return
	}
	goleak.VerifyTestMain(m)
}

// loopback is the range that the guards of the tests allow, in addition to public addresses.
var loopback = netip.MustParsePrefix("127.0.0.0/8")

// newFetcher returns a fetcher that may dial loopback. It is closed at the end of the test.
func newFetcher(t testing.TB, change func(*Config)) *Fetcher {
	t.Helper()
	cfg := DefaultConfig()
	cfg.UserAgent, cfg.HTTP2 = "peerd/test (+http://example.org/bot)", true
	cfg.Guard = NewGuard([]netip.Prefix{loopback})
	if change != nil {
		change(&cfg)
	}
	f, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// site is a web server with its own loopback address.
type site struct {
	*httptest.Server
	addr  netip.Addr
	port  uint16
	conns atomic.Int64
	hits  atomic.Int64
}

// newSite starts an HTTP server on ip; kind is "http", "https" or "h2".
func newSite(t testing.TB, ip, kind string, h http.HandlerFunc) *site {
	t.Helper()
	s := newUnstarted(t, ip, h)
	if s.EnableHTTP2 = kind == "h2"; kind == "http" {
		s.Start()
	} else {
		s.StartTLS()
	}
	t.Cleanup(s.Close)
	return s
}

// newUnstarted returns a server that listens on ip.
func newUnstarted(t testing.TB, ip string, h http.HandlerFunc) *site {
	t.Helper()
	l, err := net.Listen("tcp", ip+":0")
	if err != nil {
		t.Fatal(err)
	}
	at := netip.MustParseAddrPort(l.Addr().String())
	s := &site{addr: at.Addr(), port: at.Port()}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		s.hits.Add(1)
		h(w, r)
	}))
	s.Listener.Close()
	s.Listener = l
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	return s
}

// roots returns the certificates of s.
func (s *site) roots() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(s.Certificate())
	return p
}

// url returns a URL of host on the site's port.
func (s *site) url(scheme, host, path string) store.URL {
	return store.URL(fmt.Sprintf("%s://%s:%d%s", scheme, host, s.port, path))
}

// get fetches path from the site as http://host.
func (s *site) get(f *Fetcher, path string) Result {
	return f.Do(context.Background(), Request{URL: s.url("http", "site.example", path),
		Addr: s.addr})
}

// rawSite is a server that runs a script on each connection.
type rawSite struct {
	at       netip.AddrPort
	requests atomic.Int64 // requests read in full
	conns    atomic.Int64
}

// newRawSite runs script for each connection, and closes the connection at its end.
func newRawSite(t testing.TB, script func(s *rawSite, c net.Conn, r *bufio.Reader)) *rawSite {
	t.Helper()
	l, err := net.Listen("tcp", "127.7.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &rawSite{at: netip.MustParseAddrPort(l.Addr().String())}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			go func() {
				defer c.Close()
				script(s, c, bufio.NewReader(c))
			}()
		}
	}()
	return s
}

// readRequest reads the head of a request and counts it.
func (s *rawSite) readRequest(r *bufio.Reader) bool {
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return false
		}
		if strings.TrimSpace(line) == "" {
			s.requests.Add(1)
			return true
		}
	}
}

// get fetches the front page of s.
func (s *rawSite) get(f *Fetcher) Result {
	return f.Do(context.Background(), s.request())
}

func (s *rawSite) request() Request {
	return Request{URL: store.URL("http://" + s.at.String() + "/"), Addr: s.at.Addr()}
}

const okAnswer = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nok"

// idle returns the number of idle connections of f.
func idle(f *Fetcher) int {
	f.pool.mu.Lock()
	defer f.pool.mu.Unlock()
	return f.pool.order.Len()
}
