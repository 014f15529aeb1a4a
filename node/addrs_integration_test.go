//go:build integration

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl/resolve"
	"peerd/node/config"
)

// addrState is how an address of a host behaves.
type addrState string

const (
	addrAlive   addrState = "alive"
	addrRefuses addrState = "refuses"
	addrDrops   addrState = "drops" // packets
	addrDies    addrState = "dies"  // after some pages: it refuses then
)

// addrWeb is a host with two addresses and pages that link to the next few.
type addrWeb struct {
	t      *testing.T
	pages  int
	addrs  []netip.Addr
	states map[netip.Addr]addrState
	port   uint16

	mu    sync.Mutex
	log   map[string]int
	die   func() // stops the address that dies
	dials [2]atomic.Int64
}

func (w *addrWeb) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.mu.Lock()
	w.log[r.URL.Path]++
	if len(w.log) > w.pages/2 && w.die != nil {
		go w.die()
		w.die = nil
	}
	w.mu.Unlock()
	if r.URL.Path == "/robots.txt" {
		http.NotFound(rw, r)
		return
	}
	var i int
	fmt.Sscanf(r.URL.Path, "/%d", &i)
	rw.Header().Set("Content-Type", "text/html")
	for j := i + 1; j <= min(i+3, w.pages-1); j++ {
		fmt.Fprintf(rw, "<a href=/%d>next</a>", j)
	}
}

// listen serves at the addresses that are alive, all at one port. It returns false if another
// process uses the port at one of them.
func (w *addrWeb) listen() bool {
	w.port = 0
	var all []net.Listener
	for _, a := range w.addrs {
		if s := w.states[a]; s != addrAlive && s != addrDies {
			continue
		}
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, w.port).String())
		if err != nil {
			for _, l := range all {
				l.Close()
			}
			return false
		}
		w.port = uint16(l.Addr().(*net.TCPAddr).Port)
		all = append(all, l)
	}
	for _, l := range all {
		s := &http.Server{Handler: w}
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
				w.t.Error(err)
			}
		}()
		stop := sync.OnceFunc(func() { // lets requests in flight end
			if err := s.Shutdown(context.Background()); err != nil {
				w.t.Error(err)
			}
			<-done
		})
		w.t.Cleanup(stop)
		if w.states[netip.MustParseAddrPort(l.Addr().String()).Addr()] == addrDies {
			w.die = stop
		}
	}
	return true
}

// dial connects, except to addresses that drop packets.
func (w *addrWeb) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	a := netip.MustParseAddrPort(addr).Addr()
	if a == w.addrs[0] {
		w.dials[0].Add(1)
	} else {
		w.dials[1].Add(1)
	}
	if w.states[a] == addrDrops {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// TestEveryAddress verifies for dead and living addresses in one subnet and in several that a crawl
// fetches all pages of a host once while one address answers.
func TestEveryAddress(t *testing.T) {
	six, err := net.Listen("tcp", "[::1]:0")
	if err == nil {
		six.Close()
	}
	place := byte(0)
	for where, second := range map[string]string{
		"same subnet": "127.%d.1.2", "other subnet": "127.%d.2.1", "IPv6": "::1",
	} {
		for _, s := range [][2]addrState{
			{addrAlive, addrAlive}, {addrAlive, addrRefuses}, {addrAlive, addrDrops},
			{addrRefuses, addrAlive}, {addrDrops, addrAlive}, {addrDies, addrAlive},
		} {
			place++
			first := netip.MustParseAddr(fmt.Sprintf("127.%d.1.1", 200+place))
			other := second
			if where != "IPv6" {
				other = fmt.Sprintf(second, 200+place)
			}
			t.Run(fmt.Sprintf("%s, first %s, second %s", where, s[0], s[1]), func(t *testing.T) {
				if where == "IPv6" && six == nil {
					t.Skip("this machine has no IPv6 loopback")
				}
				t.Parallel()
				a2 := netip.MustParseAddr(other)
				testAddresses(t, &addrWeb{
					t: t, pages: 30, log: map[string]int{}, addrs: []netip.Addr{first, a2},
					states: map[netip.Addr]addrState{first: s[0], a2: s[1]},
				})
			})
		}
	}
}

func testAddresses(t *testing.T, w *addrWeb) {
	for range 20 {
		if w.listen() {
			break
		}
	}
	o := options(t)
	o.Config.Crawl.AllowNet = append(o.Config.Crawl.AllowNet, netip.MustParsePrefix("::1/128"))
	begin := time.Now()
	sum, err := Crawl(t.Context(), CrawlOptions{
		Seeds: []string{fmt.Sprintf("http://two.test:%d/0", w.port)}, Scope: "host",
		Config: o.Config, Rules: config.DefaultProfile(), UserAgent: "peerd-test",
		Emulation: &Emulation{
			DialWeb: w.dial,
			Lookup: func(_ context.Context, host string) ([]netip.Addr, error) {
				if host != "two.test" {
					return nil, resolve.ErrNotFound
				}
				return w.addrs, nil
			},
		},
	})
	t.Logf("took %v, %d and %d connections", time.Since(begin).Round(time.Millisecond),
		w.dials[0].Load(), w.dials[1].Load())
	if err != nil || sum.Pages != int64(w.pages) {
		t.Errorf("Crawl() = %+v, %v, want %d pages", sum, err, w.pages)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.pages {
		if n := w.log[fmt.Sprintf("/%d", i)]; n != 1 {
			t.Errorf("page %d was requested %d times, want once", i, n)
		}
	}
	for i, a := range w.addrs {
		if s := w.states[a]; s == addrRefuses || s == addrDrops {
			if n := w.dials[i].Load(); n > 2 {
				t.Errorf("%d connections to %v, which is dead, want at most 2", n, a)
			}
		}
	}
}
