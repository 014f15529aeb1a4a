package crawl_test

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/fetch"
	"peerd/store"
)

// bothListener accepts connections with and without TLS at one port.
type bothListener struct {
	net.Listener
	cfg *tls.Config
}

// peekConn is a connection of which the first bytes were read ahead.
type peekConn struct {
	net.Conn
	r *bufio.Reader
}

func (c peekConn) Read(p []byte) (int, error) { return c.r.Read(p) }

func (l bothListener) Accept() (net.Conn, error) {
	for {
		raw, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := peekConn{raw, bufio.NewReader(raw)}
		switch first, err := c.r.Peek(1); {
		case err != nil:
			raw.Close()
		case first[0] == 0x16: // a handshake record
			return tls.Server(c, l.cfg), nil
		default:
			return c, nil
		}
	}
}

// newSecureSite serves at 127.x.y.1 with and without TLS, with the certificate of
// net/http/httptest, which is valid for example.com. It returns a fetcher that trusts it.
func newSecureSite(t *testing.T, x, y byte) (*site, *fetch.Fetcher) {
	t.Helper()
	model := httptest.NewTLSServer(nil)
	model.Close()
	ip := netip.AddrFrom4([4]byte{127, x, y, 1})
	l, err := net.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{addr: netip.MustParseAddrPort(l.Addr().String()), mux: http.NewServeMux()}
	srv := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(bothListener{l, &tls.Config{Certificates: model.TLS.Certificates}})
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	cfg := fetch.DefaultConfig()
	cfg.UserAgent = "peerd-test"
	cfg.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
	cfg.TLS = model.Client().Transport.(*http.Transport).TLSClientConfig
	f, err := fetch.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return s, f
}

// A host that wants TLS is fetched over TLS only: links and URLs that were queued before, also
// after a restart. The archive describes the TLS session.
func TestHSTS(t *testing.T) {
	t.Parallel()
	s, f := newSecureSite(t, 64, 20)
	plain := s.url("example.com", "")
	secure := "https" + plain[len("http"):]
	s.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		field := "max-age=1000"
		if r.TLS == nil {
			t.Errorf("%s was requested without TLS", r.URL)
			field = "max-age=0" // must be ignored
		}
		w.Header().Set("Strict-Transport-Security", field)
		for i := range 10 {
			fmt.Fprintf(w, `<a href="%s/%d">x</a><a href="/%d">x</a>`, plain, i, i)
		}
	})
	dir, a := t.TempDir(), newArchive(t, 0)
	crawlOnce := func(seeds ...store.URL) *rig {
		r := newRig(t, dir, 0, func(c *crawl.Config) { c.Fetcher, c.Archive, c.Workers = f, a, 1 })
		r.own("example.com", s)
		r.seed(seeds...)
		r.crawl()
		return r
	}
	r := crawlOnce(secure+"/", plain+"/early")
	for _, path := range []store.URL{"/", "/early", "/3"} {
		if p, ok := r.page(secure + path); !ok || p.Outcome != store.OutcomeOK {
			t.Errorf("%s: fetched %v, %v", path, ok, p.Outcome)
		}
	}
	if n := s.count(); n["/"] != 1 || n["/early"] != 1 || n["/3"] != 1 {
		t.Errorf("requests: %v, want one for each page", n)
	}
	r.fatal(r.db.Close())
	r = crawlOnce(plain + "/late")
	if p, ok := r.page(secure + "/late"); !ok || p.Outcome != store.OutcomeOK {
		t.Errorf("after a restart: fetched %v, %v", ok, p.Outcome)
	}
	described := 0
	for _, rec := range records(t, a) {
		if rec.kind != "metadata" || !strings.HasPrefix(rec.url, "https:") {
			continue
		}
		described++
		for _, want := range []string{"tlsVersion: TLS 1.3\r\n", "tlsCipherSuite: TLS_",
			"tlsVerified: true\r\n", "tlsSubjectNames: example.com ", "tlsNotAfter: 2084-01-29T"} {
			if !strings.Contains(rec.block, want) {
				t.Errorf("metadata lacks %q: %q", want, rec.block)
			}
		}
	}
	if described < 12 {
		t.Errorf("%d records describe a TLS session, want 12 or more", described)
	}
}
