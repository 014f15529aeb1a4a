package resolve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

// clientOf returns a client of name servers, with a hosts file.
func clientOf(t *testing.T, hosts string, servers ...string) *Client {
	t.Helper()
	all, err := ParseServers(servers)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte(hosts), 0o600); err != nil {
		t.Fatal(err)
	}
	c := NewClient(ClientConfig{Servers: all, Hosts: file})
	t.Cleanup(c.Close)
	return c
}

func TestClientAnswers(t *testing.T) {
	v4, v6 := addrs("203.0.113.1"), addrs("2001:db8::1")
	both := slices.Concat(v4, v6)
	srv := serveDNS(t, func(_, name string, qtype uint16) dnsReply {
		switch name {
		case "both.example":
			return dnsReply{Addrs: both, TTL: 300}
		case "four.example":
			return dnsReply{Addrs: v4, TTL: 300, SOA: 60}
		case "six.example":
			return dnsReply{Addrs: v6, TTL: 300, SOA: 60}
		case "large.example":
			return dnsReply{Addrs: v4, TTL: 300, Truncate: true}
		case "alias.example":
			return dnsReply{Alias: "both.example", Addrs: v4, TTL: 200}
		case "far.example": // the server does not follow its alias
			return dnsReply{Alias: "both.example", TTL: 100}
		case "loop.example":
			return dnsReply{Alias: "loop.example", TTL: 300}
		case "endless.example":
			return dnsReply{Alias: "a.endless.example", TTL: 300}
		case "none.example":
			return dnsReply{SOA: 900}
		case "servfail.example":
			return dnsReply{Rcode: dns.RcodeServerFailure}
		case "half.example": // the server fails for AAAA
			if qtype == dns.TypeA {
				return dnsReply{Addrs: v4, TTL: 300}
			}
			return dnsReply{Rcode: dns.RcodeServerFailure}
		case "refused.example":
			return dnsReply{Rcode: dns.RcodeRefused}
		case "unsigned.example":
			return dnsReply{Rcode: dns.RcodeNameError}
		}
		if strings.HasSuffix(name, ".endless.example") {
			return dnsReply{Alias: "a." + name, TTL: 300}
		}
		return dnsReply{Rcode: dns.RcodeNameError, SOA: 900}
	})
	c := clientOf(t, "203.0.113.9 Static.Example. static\n", srv.Addr)
	for _, tt := range []struct {
		host          string
		want          []netip.Addr
		ttl           time.Duration // of an error as well
		reason        Reason
		authoritative bool
		queries       int
	}{
		{"both.example", both, 300 * time.Second, 0, false, 2},
		{"four.example", v4, 300 * time.Second, 0, false, 2},
		{"six.example", v6, 300 * time.Second, 0, false, 2},
		{"large.example", v4, 300 * time.Second, 0, false, 4},
		{"alias.example", both, 200 * time.Second, 0, false, 2},
		{"far.example", both, 100 * time.Second, 0, false, 2},
		{"half.example", v4, partialTTL, 0, false, 2},
		{"static.example", addrs("203.0.113.9"), hostsTTL, 0, false, 0},
		{"static", addrs("203.0.113.9"), hostsTTL, 0, false, 0},
		{"none.example", nil, 900 * time.Second, ReasonNoAddress, true, 2},
		{"missing.example", nil, 900 * time.Second, ReasonNXDomain, true, 2},
		{"unsigned.example", nil, 0, ReasonNXDomain, false, 2},
		{"servfail.example", nil, 0, ReasonServFail, false, 2},
		{"refused.example", nil, 0, ReasonRefused, false, 2},
		{"loop.example", nil, 0, ReasonMalformed, false, 2},
		{"endless.example", nil, 0, ReasonMalformed, false, 2},
	} {
		a, err := c.Lookup(t.Context(), tt.host)
		if !slices.Equal(normalAddrs(a.Addrs), tt.want) || a.TTL != tt.ttl && err == nil {
			t.Errorf("Lookup(%s) = %v for %v, %v, want %v for %v", tt.host, a.Addrs, a.TTL, err,
				tt.want, tt.ttl)
		}
		if e, ok := errors.AsType[*Error](err); tt.reason != 0 && (!ok || e.Reason != tt.reason ||
			e.ttl != tt.ttl || e.Authoritative != tt.authoritative) {
			t.Errorf("Lookup(%s): error %+v, want %v for %v", tt.host, err, tt.reason, tt.ttl)
		}
		if n := srv.queriesOf(tt.host); tt.queries > 0 && n != tt.queries {
			t.Errorf("Lookup(%s) sent %d queries for the name, want %d", tt.host, n, tt.queries)
		}
	}
}

// A caller that stops to wait says nothing about the name server.
func TestCancelledQuery(t *testing.T) {
	asked := make(chan struct{}, 8)
	srv := serveDNS(t, func(string, string, uint16) dnsReply {
		asked <- struct{}{}
		return dnsReply{Drop: true}
	})
	c := clientOf(t, "", srv.Addr)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = c.Lookup(ctx, "a.example")
	}()
	<-asked
	<-asked
	cancel()
	<-ended
	if u := c.order(c.servers())[0]; u.isFailing(time.Now()) {
		t.Error("a name server counts as failing after a query that was cancelled")
	}
}

// TestClientTimeout verifies that a lookup ends in time, and that a server that answers only one
// family does not delay the other for long.
func TestClientTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(ClientConfig{
			Servers: []Server{{SchemeDNS, "192.0.2.1:53"}}, Hosts: os.DevNull,
			Dial: pipeDial(func(q *dns.Msg) dnsReply {
				half := strings.HasPrefix(q.Question[0].Name, "half")
				return dnsReply{Addrs: addrs("203.0.113.1"), TTL: 300,
					Drop: !half || q.Question[0].Qtype == dns.TypeAAAA}
			}),
		})
		start := time.Now()
		a, err := c.Lookup(t.Context(), "half.example")
		if took := time.Since(start); err != nil || len(a.Addrs) != 1 || took != secondFamily {
			t.Errorf("half: %v, %v after %v, want an address after %v", a, err, took, secondFamily)
		}
		start = time.Now()
		_, err = c.Lookup(t.Context(), "none.example")
		e, ok := errors.AsType[*Error](err)
		if took := time.Since(start); !ok || e.Reason != ReasonTimeout ||
			took != 3*roundTimeout {
			t.Errorf("none: %v after %v, want a time-out after %v", err, took, 3*roundTimeout)
		}
	})
}

// pipeDial connects to a name server in memory.
func pipeDial(answer func(q *dns.Msg) dnsReply) dialFunc {
	return func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			c := &dns.Conn{Conn: far}
			for {
				q, err := c.ReadMsg()
				if err != nil {
					return
				}
				if r := answer(q); !r.Drop && c.WriteMsg(r.message(q, "tcp")) != nil {
					return
				}
			}
		}()
		return near, nil
	}
}

// TestFailover verifies that the next server is asked if one fails, and that a server that did
// not answer is then asked last for a while.
func TestFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		good := pipeDial(func(*dns.Msg) dnsReply {
			return dnsReply{Addrs: addrs("203.0.113.1"), TTL: 300}
		})
		dead := true
		c := NewClient(ClientConfig{
			Servers: []Server{{SchemeDNS, "192.0.2.1:53"}, {SchemeDNS, "192.0.2.2:53"}},
			Hosts:   os.DevNull,
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				asked = append(asked, addr)
				if dead && addr == "192.0.2.1:53" {
					return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
				}
				return good(ctx, network, addr)
			},
		})
		ask := func(want ...string) {
			t.Helper()
			asked = nil
			_, err := c.ask(t.Context(), "a.example", dns.TypeA, false)
			if err != nil || !slices.Equal(asked, want) {
				t.Errorf("asked %v, %v, want %v", asked, err, want)
			}
		}
		ask("192.0.2.1:53", "192.0.2.2:53")
		ask("192.0.2.2:53")
		dead = false
		time.Sleep(failingFor)
		ask("192.0.2.1:53")
	})
}

// TestRates verifies the limits of queries to one server and about one domain.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(ClientConfig{
			Servers: []Server{{SchemeDNS, "192.0.2.1:53"}}, Rate: 50, Hosts: os.DevNull,
			Dial: pipeDial(func(*dns.Msg) dnsReply {
				return dnsReply{Addrs: addrs("203.0.113.1"), TTL: 300}
			}),
		})
		start := time.Now()
		for i := range 50 { // 100 queries, of which the bucket allows 50 at once
			host := strings.Repeat("a", i+1) + ".example"
			if _, err := c.Lookup(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Errorf("100 queries took %v, want 1s", took)
		}
		var busy atomic.Int64
		var wg sync.WaitGroup
		for range 200 { // 400 queries, of which the limit of the domain allows 300 within 2 s
			wg.Go(func() {
				if _, err := c.Lookup(t.Context(), "a.domain.example"); errors.Is(err, ErrBusy) {
					busy.Add(1)
				}
			})
		}
		wg.Wait()
		if busy.Load() == 0 {
			t.Error("no lookup of a busy domain was refused")
		}
	})
}

// TestBusyServer verifies that a limit that is far below the demand is used, and not for lookups
// that have given up.
func TestBusyServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewClient(ClientConfig{
			Servers: []Server{{SchemeDNS, "192.0.2.1:53"}}, Rate: 10, Hosts: os.DevNull,
			Dial: pipeDial(func(*dns.Msg) dnsReply {
				return dnsReply{Addrs: addrs("203.0.113.1"), TTL: 300}
			}),
		})
		start, answered := time.Now(), atomic.Int64{}
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				for n := 0; time.Since(start) < time.Minute; n++ {
					_, err := c.Lookup(t.Context(), fmt.Sprintf("a%d-%d.example", i, n))
					switch {
					case err == nil:
						answered.Add(1)
					case !errors.Is(err, ErrBusy) || errors.Is(err, ErrTemporary):
						t.Errorf("Lookup() = %v, want ErrBusy", err)
					default:
						time.Sleep(5 * time.Second)
					}
				}
			})
		}
		wg.Wait()
		if n := answered.Load(); n < 200 { // of 300 that need two queries each
			t.Errorf("%d lookups were answered in a minute", n)
		}
	})
}

// TestEncrypted verifies DNS over TLS and over HTTPS, and that TLS connections are used again.
func TestEncrypted(t *testing.T) {
	reply := dnsReply{Addrs: addrs("203.0.113.1"), TTL: 300}
	web := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			raw := make([]byte, r.ContentLength)
			if _, err := r.Body.Read(raw); err != nil && r.ContentLength < 12 {
				t.Error(err)
			}
			q := new(dns.Msg)
			if err := q.Unpack(raw); err != nil || r.URL.Path != "/dns-query" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			out, err := reply.message(q, "tcp").Pack()
			if err != nil {
				t.Error(err)
			}
			_, _ = w.Write(out)
		}))
	web.EnableHTTP2 = true
	web.StartTLS()
	t.Cleanup(web.Close)
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())

	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: web.TLS.Certificates})
	if err != nil {
		t.Fatal(err)
	}
	var accepted int
	dot := &dns.Server{Listener: &countingListener{l, &accepted}, Handler: dns.HandlerFunc(
		func(w dns.ResponseWriter, m *dns.Msg) { _ = w.WriteMsg(reply.message(m, "tcp")) })}
	served := make(chan error, 1)
	started := make(chan struct{})
	dot.NotifyStartedFunc = func() { close(started) }
	go func() { served <- dot.ActivateAndServe() }()
	<-started
	t.Cleanup(func() {
		if err := errors.Join(dot.Shutdown(), <-served); err != nil {
			t.Error(err)
		}
	})
	for _, server := range []string{web.URL + "/dns-query", "tls://" + l.Addr().String()} {
		servers, err := ParseServers([]string{server})
		if err != nil {
			t.Fatal(err)
		}
		c := NewClient(ClientConfig{Servers: servers, Hosts: os.DevNull,
			TLS: &tls.Config{RootCAs: roots}})
		for range 3 {
			if a, err := c.Lookup(t.Context(), "a.example"); err != nil || len(a.Addrs) != 1 {
				t.Errorf("%s: %v, %v", server, a, err)
			}
		}
		c.Close()
		c = NewClient(ClientConfig{Servers: servers, Hosts: os.DevNull})
		if _, err := c.Lookup(t.Context(), "a.example"); !errors.Is(err, ErrTemporary) {
			t.Errorf("%s with an unknown certificate: %v, want ErrTemporary", server, err)
		}
		c.Close()
	}
	if accepted > 4 { // two, and those with the unknown certificate
		t.Errorf("%d TLS connections, want at most 4", accepted)
	}
}

type countingListener struct {
	net.Listener
	n *int
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		*l.n++
	}
	return c, err
}

// TestSystemFiles verifies that resolv.conf is read again when it changes, and that search domains
// apply to names with one label only.
func TestSystemFiles(t *testing.T) {
	handle := func(addr string) dnsHandler {
		return func(_, name string, _ uint16) dnsReply {
			if name == "wiki.corp.example" || name == "www.example" {
				return dnsReply{Addrs: addrs(addr), TTL: 300}
			}
			return dnsReply{Rcode: dns.RcodeNameError, SOA: 60}
		}
	}
	first := serveDNS(t, handle("203.0.113.1"))
	second := serveDNS(t, handle("203.0.113.2"))
	file := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(addr string) {
		t.Helper()
		err := os.WriteFile(file, []byte("search corp.example\nnameserver "+addr+"\n"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
	}
	write("192.0.2.1")
	c := NewClient(ClientConfig{ResolvConf: file, Hosts: os.DevNull,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			to := map[string]string{
				"192.0.2.1:53": first.Addr, "[2001:db8::2]:53": second.Addr,
			}[addr]
			return new(net.Dialer).DialContext(ctx, network, to)
		}})
	t.Cleanup(c.Close)
	ask := func(host, want string) {
		t.Helper()
		a, err := c.Lookup(t.Context(), host)
		if want == "" && errors.Is(err, ErrNotFound) {
			return
		}
		if err != nil || len(a.Addrs) == 0 || a.Addrs[0].String() != want {
			t.Errorf("Lookup(%s) = %v, %v, want %q", host, a, err, want)
		}
	}
	ask("www.example", "203.0.113.1")
	ask("wiki", "203.0.113.1")
	ask("wiki.corp", "")
	if n := first.queriesOf("wiki.corp.corp.example"); n != 0 {
		t.Errorf("%d queries for a name with several labels in the search domain", n)
	}
	write("2001:db8::2")
	c.conf.mu.Lock()
	c.conf.checked = time.Time{}
	c.conf.mu.Unlock()
	// A query that is still under way may look at the file at the same time as the next one.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		a, err := c.Lookup(t.Context(), "www.example")
		if err == nil && len(a.Addrs) > 0 && a.Addrs[0].String() == "203.0.113.2" {
			break
		}
		time.Sleep(time.Millisecond)
	}
	ask("www.example", "203.0.113.2")
	if err := os.WriteFile(file, nil, 0o600); err != nil { // about to be written
		t.Fatal(err)
	}
	c.conf.mu.Lock()
	c.conf.checked = time.Time{}
	c.conf.mu.Unlock()
	ask("www.example", "203.0.113.2")
}

func TestParseServer(t *testing.T) {
	for text, want := range map[string]string{
		"1.1.1.1": "dns 1.1.1.1:53", "1.1.1.1:5353": "dns 1.1.1.1:5353",
		"2606:4700::1111":      "dns [2606:4700::1111]:53",
		"[2606:4700::1111]:54": "dns [2606:4700::1111]:54",
		"tls://dns.example":    "tls dns.example:853", "tls://192.0.2.1:8853": "tls 192.0.2.1:8853",
		"tls://[2001:db8::1]":           "tls [2001:db8::1]:853",
		"https://dns.example/dns-query": "https https://dns.example/dns-query",
		"":                              "", "dns.example": "", "1.1.1.1:0": "",
		"tls://": "", "tls://a:b": "",
		"http://dns.example/": "", "https://": "", "https://u:p@dns.example/": "", "quic://1.1.1.1": "",
	} {
		got := ""
		if s, err := ParseServer(text); err == nil {
			got = string(s.Scheme) + " " + s.Address
			if again, err := ParseServer(s.String()); err != nil || again != s {
				t.Errorf("ParseServer(%q) = %v, %v, want %v", s.String(), again, err, s)
			}
		}
		if got != want {
			t.Errorf("ParseServer(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestErrorText verifies the words that users see.
func TestErrorText(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&Error{Host: "a", Reason: ReasonNXDomain, Authoritative: true},
			"resolve a: no such host: NXDOMAIN (authoritative)"},
		{&Error{Host: "a", Reason: ReasonServFail, cause: errors.New("192.0.2.1:53")},
			"resolve a: name lookup failed: SERVFAIL: 192.0.2.1:53"},
		{asError("a", context.DeadlineExceeded),
			"resolve a: name lookup failed: timed out: context deadline exceeded"},
	} {
		if got := tt.err.Error(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// FuzzResponse verifies that no response of a name server causes a panic or an impossible result.
func FuzzResponse(f *testing.F) {
	query := newQuery("a.example", dns.TypeA)
	query.Id = 7
	for _, r := range []dnsReply{
		{Addrs: addrs("203.0.113.1"), TTL: 300},
		{Alias: "b.example", Addrs: addrs("203.0.113.1"), TTL: 300},
		{Alias: "a.example"}, {Rcode: dns.RcodeNameError, SOA: 60}, {SOA: 60},
	} {
		raw, err := r.message(query, "tcp").Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		resp, err := parseResponse(query, raw)
		if err != nil {
			return
		}
		r := follow(resp, "a.example", dns.TypeA)
		n := 0
		for _, set := range []bool{len(r.addrs) > 0, r.alias != "" && r.err == nil, r.err != nil} {
			if set {
				n++
			}
		}
		if n != 1 || r.ttl < 0 || r.ttl > maxRecordTTL || len(r.addrs) > maxAddrs {
			t.Fatalf("%+v of %v", r, resp)
		}
	})
}

// FuzzFiles verifies the parsers of the system's files.
func FuzzFiles(f *testing.F) {
	f.Add([]byte("127.0.0.1 localhost # me\n::1 ip6-localhost\n"))
	f.Add([]byte("nameserver 192.0.2.1\nsearch a.example b.example\noptions ndots:2\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, all := range (hostTable{}).parse(text) {
			if name != normalHost(name) || len(all) > maxAddrs {
				t.Errorf("%q: %v", name, all)
			}
		}
		c := resolvConf{}.parse(text)
		if len(c.servers) == 0 || len(c.servers) > maxServers || len(c.search) > maxSearch {
			t.Errorf("%+v", c)
		}
	})
}
