package faulty

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve serves sites on loopback until the test ends, and returns a client of them.
func serve(t *testing.T, sites ...*Site) (*Web, *http.Client) {
	t.Helper()
	w, err := New(sites)
	if err != nil {
		t.Fatal(err)
	}
	plain, secure := listen(t), listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Serve(ctx, plain, secure) }()
	transport := &http.Transport{DialContext: func(ctx context.Context, _, at string) (net.Conn,
		error) {
		ln := plain
		if strings.HasSuffix(at, ":443") {
			ln = secure
		}
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return w, &http.Client{Transport: transport}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

// get returns the status and body of a URL, and an error in mid-body.
func get(t *testing.T, c *http.Client, url string) (int, string, error) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

func TestAllPagesAreLinked(t *testing.T) {
	s := &Site{Host: "a.test", Pages: 30, Fan: 3}
	w, c := serve(t, s)
	seen := map[string]bool{"/": true}
	for queue := []string{"/"}; len(queue) > 0; queue = queue[1:] {
		status, body, err := get(t, c, "http://a.test"+queue[0])
		if status != 200 || err != nil {
			t.Fatalf("GET %s: %d, %v", queue[0], status, err)
		}
		for _, part := range strings.Split(body, `href="`)[1:] {
			path, _, _ := strings.Cut(part, `"`)
			if !seen[path] {
				seen[path] = true
				queue = append(queue, path)
			}
		}
	}
	if len(seen) != 30 || w.Pages() != 30 || w.Fetched() != 30 || w.Repeats() != 0 ||
		len(w.Missing(5)) != 0 {
		t.Errorf("found %d, fetched %d of %d pages, %d again, missing %q; want 30 of 30 once",
			len(seen), w.Fetched(), w.Pages(), w.Repeats(), w.Missing(5))
	}
	if status, _, _ := get(t, c, "http://a.test/oak/oak-31"); status != 404 {
		t.Errorf("a page that does not exist: status %d, want 404", status)
	}
}

func TestFaults(t *testing.T) {
	s := &Site{Host: "a.test", Pages: 1}
	w, c := serve(t, s)
	s.Break(PagesOnly(Status(503, 7)))
	if status, _, _ := get(t, c, "http://a.test/"); status != 503 {
		t.Errorf("status %d, want 503", status)
	}
	if status, _, _ := get(t, c, "http://a.test/robots.txt"); status != 404 {
		t.Errorf("robots.txt: status %d, want 404", status)
	}
	s.Break(Reset)
	if _, body, err := get(t, c, "http://a.test/"); err == nil {
		t.Errorf("got %d bytes without an error, want a reset", len(body))
	}
	if n := w.Fetched(); n != 0 {
		t.Errorf("%d pages were fetched, want none", n)
	}
	s.Mend()
	if status, _, err := get(t, c, "http://a.test/"); status != 200 || err != nil {
		t.Errorf("status %d, %v, want 200", status, err)
	}
	log := w.Log()
	if len(log) != 4 || log[0].Status != 503 || log[2].Complete || !log[3].Complete {
		t.Errorf("log = %+v", log)
	}
}

func TestHangEndsWithTheClient(t *testing.T) {
	s := &Site{Host: "a.test", Pages: 1}
	w, c := serve(t, s)
	s.Break(Hang)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://a.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, _ := io.ReadFull(resp.Body, make([]byte, 100)) // half of the body is longer
	cancel()
	if n != 100 || w.Fetched() != 0 {
		t.Errorf("read %d bytes, %d pages fetched; want 100, none", n, w.Fetched())
	}
}

func TestCertificates(t *testing.T) {
	good := &Site{Host: "good.test", Pages: 1, Cert: CertValid}
	bad := []*Site{
		{Host: "old.test", Pages: 1, Cert: CertExpired},
		{Host: "other.test", Pages: 1, Cert: CertOtherHost},
		{Host: "self.test", Pages: 1, Cert: CertSelfSigned},
	}
	w, c := serve(t, append(bad, good)...)
	c.Transport.(*http.Transport).TLSClientConfig = clientConfig(t, w.CA())
	if status, _, err := get(t, c, "http://good.test/"); status != 200 || err != nil {
		t.Errorf("the redirect to HTTPS: status %d, %v, want 200", status, err)
	}
	for _, s := range bad {
		if resp, err := c.Get(s.URL()); err == nil {
			resp.Body.Close()
			t.Errorf("%s: no error for a certificate that is %s", s.Host, s.Cert)
		}
	}
}

func TestNames(t *testing.T) {
	n := NewNames(time.Minute)
	n.Set("a.test", netip.MustParseAddr("192.0.2.2"), netip.MustParseAddr("192.0.2.1"),
		netip.MustParseAddr("2001:db8::1"))
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tcp := listen(t)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.Serve(ctx, udp, tcp) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	ask := func(name string, kind uint16, c dns.Client, at net.Addr) *dns.Msg {
		t.Helper()
		m := new(dns.Msg)
		m.SetQuestion(name, kind)
		a, _, err := c.Exchange(m, at.String())
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	a := ask("a.test.", dns.TypeA, dns.Client{}, udp.LocalAddr())
	if len(a.Answer) != 2 || a.Answer[0].(*dns.A).A.String() != "192.0.2.2" {
		t.Errorf("A = %v, want two addresses in their order", a.Answer)
	}
	a = ask("A.Test.", dns.TypeAAAA, dns.Client{Net: "tcp"}, tcp.Addr())
	if len(a.Answer) != 1 {
		t.Errorf("AAAA = %v, want one address", a.Answer)
	}
	if a = ask("b.test.", dns.TypeA, dns.Client{}, udp.LocalAddr()); a.Rcode != dns.RcodeNameError {
		t.Errorf("unknown name: %s, want NXDOMAIN", dns.RcodeToString[a.Rcode])
	}
	n.Break(NamesFail)
	if a = ask("a.test.", dns.TypeA, dns.Client{}, udp.LocalAddr()); a.Rcode !=
		dns.RcodeServerFailure {
		t.Errorf("broken: %s, want SERVFAIL", dns.RcodeToString[a.Rcode])
	}
	if q := n.Queries(); len(q) != 4 || q[1].Name != "a.test" || q[1].Type != "AAAA" {
		t.Errorf("queries = %v", q)
	}
}

// clientConfig trusts an authority.
func clientConfig(t *testing.T, ca []byte) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		t.Fatal("no certificate")
	}
	return &tls.Config{RootCAs: pool}
}
