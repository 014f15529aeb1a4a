package crawl_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/crawl/fetch"
)

// TestOtherAddresses verifies that the pages of hosts with a dead and a living address in one
// subnet are fetched once, politely, and that the dead one is not waited for again and again.
func TestOtherAddresses(t *testing.T) {
	const gap, pages = 20 * time.Millisecond, 8
	for name, tc := range map[string]struct {
		dead  string // how the first address fails; "" if it lives
		dials int64  // maximum number of attempts to connect to it
	}{
		"alive": {"", 100}, "refuses": {"refuses", 2}, "drops packets": {"drops", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := newSite(t, 90, 1), newSite(t, 91, 1)
			// The same server at two addresses of one subnet and port.
			at := netip.AddrPortFrom(first.addr.Addr().Next(), first.addr.Port())
			var dials atomic.Int64
			dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch {
				case addr == at.String():
					c, err := new(net.Dialer).DialContext(ctx, network, second.addr.String())
					return movedConn{c, at}, err
				case tc.dead == "drops":
					dials.Add(1)
					<-ctx.Done()
					return nil, ctx.Err()
				case tc.dead == "refuses":
					addr = "127.90.1.9:1"
				}
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, network, addr)
			}
			r := newRig(t, "", gap, func(c *crawl.Config) {
				get := fetch.DefaultConfig()
				get.UserAgent, get.Dial = "peerd-test", dial
				get.Guard = fetch.NewGuard([]netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")})
				var err error
				if c.Fetcher, err = fetch.New(get); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(c.Fetcher.Close)
				c.Delegate = resolving{c.Delegate,
					func(context.Context, string) ([]netip.Addr, error) {
						return []netip.Addr{first.addr.Addr(), at.Addr(), second.addr.Addr()}, nil
					}}
			})
			for _, s := range []*site{first, second} {
				s.mux.HandleFunc("/", func(w http.ResponseWriter, q *http.Request) {
					if q.URL.Path == "/robots.txt" {
						http.NotFound(w, q)
					}
				})
			}
			for _, host := range []string{"a.test", "b.test"} {
				r.own(host, first)
				for i := range pages {
					r.seed(first.url(host, fmt.Sprintf("/%d", i)))
				}
			}
			r.crawl()
			asked, want := second, at.Addr()
			if tc.dead == "" {
				asked, want = first, first.addr.Addr()
			}
			n := map[string]int{}
			for _, h := range asked.log() {
				n[strings.Split(h.host, ":")[0]+h.path]++
			}
			if len(n) != 2*(pages+1) {
				t.Errorf("got %d URLs, want %d: %v", len(n), 2*(pages+1), n)
			}
			for u, k := range n {
				if k != 1 {
					t.Errorf("%d requests for %s, want 1", k, u)
				}
			}
			if d := asked.apart(t); d < gap {
				t.Errorf("requests %v apart, want %v", d, gap)
			}
			if d := dials.Load(); d > tc.dials {
				t.Errorf("%d connections to the first address, want at most %d", d, tc.dials)
			}
			for _, host := range []string{"a.test", "b.test"} {
				if _, a, ok := r.fr.HostAddr(host); !ok || a != want {
					t.Errorf("%s is at %v, want %v", host, a, want)
				}
			}
			for _, o := range r.observed() {
				if o.rep.Outcome.Answered() && !o.rep.Timing.Reused && o.rep.Timing.Connect <= 0 {
					t.Errorf("timing %+v has no handshake", o.rep.Timing)
				}
			}
		})
	}
}

// movedConn is a connection that appears to lead to another address.
type movedConn struct {
	net.Conn
	to netip.AddrPort
}

func (c movedConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }
