package fetch

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"peerd/store"
)

// testProxy is an HTTP or SOCKS5 proxy that records the requested targets.
type testProxy struct {
	at       string
	user     string // "name:password" that it demands, or ""
	answer   string // said to every CONNECT, if not empty
	mu       sync.Mutex
	targets  []string
	refusals int
}

func newTestProxy(t *testing.T, serve func(p *testProxy, c net.Conn)) *testProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.7.6.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &testProxy{at: l.Addr().String()}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				serve(p, c)
			})
		}
	}()
	return p
}

// join forwards data between c and target until either is closed.
func (p *testProxy) join(c net.Conn, target, hello string) {
	p.mu.Lock()
	p.targets = append(p.targets, target)
	p.mu.Unlock()
	far, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer far.Close()
	io.WriteString(c, hello)
	go func() {
		io.Copy(far, c)
		far.Close()
	}()
	io.Copy(c, far)
}

func serveConnect(p *testProxy, c net.Conn) {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		return
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(p.user))
	switch {
	case p.answer != "":
		io.WriteString(c, p.answer)
		io.Copy(io.Discard, c)
	case req.Method != http.MethodConnect || p.user != "" &&
		req.Header.Get("Proxy-Authorization") != want:
		p.mu.Lock()
		p.refusals++
		p.mu.Unlock()
		io.WriteString(c, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
	default:
		p.join(c, req.Host, "HTTP/1.1 200 Connection established\r\n\r\n")
	}
}

// serveSOCKS speaks SOCKS5 (RFC 1928) with passwords (RFC 1929).
func serveSOCKS(p *testProxy, c net.Conn) {
	b := make([]byte, 300)
	read := func(n int) []byte { io.ReadFull(c, b[:n]); return b[:n] }
	read(int(read(2)[1]))
	if p.user == "" {
		c.Write([]byte{5, 0})
	} else {
		c.Write([]byte{5, 2})
		name := string(read(int(read(2)[1])))
		if name+":"+string(read(int(read(1)[0]))) != p.user {
			c.Write([]byte{1, 1})
			return
		}
		c.Write([]byte{1, 0})
	}
	var target string
	switch read(4)[3] {
	case 1:
		target = net.IP(read(4)).String()
	case 3:
		target = string(read(int(read(1)[0])))
	default:
		return
	}
	target = fmt.Sprintf("%s:%d", target, binary.BigEndian.Uint16(read(2)))
	p.join(c, target, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00")
}

func TestProxy(t *testing.T) {
	plain := newSite(t, "127.7.6.2", "http", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host)
	})
	secure := newSite(t, "127.7.6.3", "h2", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.TLS.ServerName)
	})
	for name, serve := range map[string]func(*testProxy, net.Conn){"http": serveConnect,
		"socks5": serveSOCKS} {
		for _, user := range []string{"", "me:pa ss"} {
			t.Run(name+user, func(t *testing.T) {
				p := newTestProxy(t, serve)
				p.user = user
				cred := ""
				if user != "" {
					cred = strings.ReplaceAll(user, " ", "%20") + "@"
				}
				// The guard knows the sites but not the proxy.
				f := newFetcher(t, func(c *Config) {
					c.TLS = tlsRoots(secure)
					c.Proxy = name + "://" + cred + p.at
					c.Guard = NewGuard([]netip.Prefix{netip.MustParsePrefix("127.7.6.2/31")})
				})
				for range 2 {
					res := plain.get(f, "/")
					if res.Outcome != store.OutcomeOK || !strings.HasPrefix(string(res.Body),
						"site.example:") || res.Remote.Addr() != plain.addr {
						t.Errorf("plain: %v %q %v %v", res.Outcome, res.Body, res.Remote, res.Err)
					}
				}
				res := f.Do(t.Context(), Request{URL: secure.url("https", "example.com", "/"),
					Addr: secure.addr})
				if res.Outcome != store.OutcomeOK || string(res.Body) != "example.com" ||
					res.Proto != "h2" {
					t.Errorf("TLS: %v %q %v", res.Outcome, res.Body, res.Err)
				}
				for _, private := range []string{"127.7.6.1", "10.0.0.1", "169.254.169.254",
					"::1"} {
					res := f.Do(t.Context(), Request{URL: "http://site.example/",
						Addr: netip.MustParseAddr(private)})
					if res.Outcome != store.OutcomeRefused {
						t.Errorf("%s: %v %v", private, res.Outcome, res.Err)
					}
				}
				f.Close()
				want := fmt.Sprint([]string{netip.AddrPortFrom(plain.addr, plain.port).String(),
					netip.AddrPortFrom(secure.addr, secure.port).String()})
				p.mu.Lock()
				defer p.mu.Unlock()
				if got := fmt.Sprint(p.targets); got != want {
					t.Errorf("asked for %s, want %s", got, want)
				}
			})
		}
	}
}

func TestHostileProxy(t *testing.T) {
	tests := []struct {
		name, answer, user string
		want               store.Outcome
	}{
		{"demands a password", "", "me:other", store.OutcomeConnect},
		{"refuses", "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n", "", store.OutcomeConnect},
		{"redirects", "HTTP/1.1 302 Found\r\nLocation: http://10.0.0.1/\r\nContent-Length: 0\r\n\r\n", "", store.OutcomeConnect},
		{"rubbish", "SSH-2.0-x\r\n", "", store.OutcomeConnect},
		{"answers for the server", "HTTP/1.1 200 OK\r\n\r\n" + okAnswer, "", store.OutcomeConnect},
		{"endless head", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 10_000), "", store.OutcomeConnect},
		{"silent", " ", "", store.OutcomeTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newTestProxy(t, serveConnect)
			p.answer, p.user = tt.answer, tt.user
			f := newFetcher(t, func(c *Config) {
				c.Proxy = "http://me:secret@" + p.at
				if tt.want == store.OutcomeTimeout {
					c.ConnectTimeout = 300 * time.Millisecond
				}
			})
			res := f.Do(t.Context(), Request{URL: "http://site.example/",
				Addr: netip.MustParseAddr("127.7.6.9")})
			if res.Outcome != tt.want || !errors.Is(res.Err, ErrProxy) ||
				strings.Contains(res.Err.Error(), "secret") {
				t.Errorf("outcome %v, error %v, want ErrProxy without the password",
					res.Outcome, res.Err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if res := f.Do(ctx, Request{URL: "http://site.example/",
				Addr: netip.MustParseAddr("127.7.6.9")}); res.Outcome != store.OutcomeNone {
				t.Errorf("outcome %v after cancellation, want None", res.Outcome)
			}
		})
	}
	// A proxy that does not exist.
	f := newFetcher(t, func(c *Config) { c.Proxy = "socks5://127.7.6.1:1" })
	if res := f.Do(t.Context(), Request{URL: "http://site.example/",
		Addr: netip.MustParseAddr("127.7.6.9")}); res.Outcome != store.OutcomeConnect ||
		!errors.Is(res.Err, ErrProxy) {
		t.Errorf("outcome %v, error %v, want Connect, ErrProxy", res.Outcome, res.Err)
	}
}

func TestProxyConfig(t *testing.T) {
	for s, ok := range map[string]bool{
		"http://p.example": true, "http://u:p@p.example:3128/": true, "socks5://[::1]:9050": true,
		"socks5h://tor":  true,
		"p.example:3128": false, "https://p.example": false, "http://": false, "http://p/x": false,
		"http://p?x": false,
		"ftp://p":    false, "http://u:se%zzcret@p": false, "::": false,
	} {
		cfg := DefaultConfig()
		cfg.UserAgent, cfg.Proxy = "x/1", s
		err := cfg.Validate()
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "cret") {
			t.Errorf("Validate() = %v for the proxy %q, want ok = %v, without the password",
				err, s, ok)
		}
	}
}
