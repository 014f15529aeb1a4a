//go:build integration && linux

package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sys/unix"

	"peerd/node/admin"
)

// wireCounter counts the bytes between the test and peers as the kernel does: of each connection
// what the peer's kernel has received and sent, with 52 bytes of headers for each packet.
type wireCounter struct {
	mu    sync.Mutex
	open  map[*wireConn]struct{}
	ended map[string]int64 // by peer
}

// wireConn is a connection to a peer, as seen by the test.
type wireConn struct {
	*net.TCPConn
	all  *wireCounter
	peer string // guarded by all.mu; "": not known yet
}

func newWireCounter() *wireCounter {
	return &wireCounter{open: map[*wireConn]struct{}{}, ended: map[string]int64{}}
}

func (w *wireCounter) add(c net.Conn, peer string) *wireConn {
	wc := &wireConn{TCPConn: c.(*net.TCPConn), all: w, peer: peer}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open[wc] = struct{}{}
	return wc
}

// bytes returns what the kernel says about an open connection.
func (c *wireConn) bytes() (n int64) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		if i, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			n = int64(i.Bytes_acked+i.Bytes_received) + 52*int64(i.Segs_in+i.Segs_out)
		}
	})
	return n
}

// Close counts the connection for the last time.
func (c *wireConn) Close() error {
	c.all.mu.Lock()
	if _, ok := c.all.open[c]; ok {
		delete(c.all.open, c)
		c.all.ended[c.peer] += c.bytes()
	}
	c.all.mu.Unlock()
	return c.TCPConn.Close()
}

// of returns the bytes of a peer so far.
func (w *wireCounter) of(peer string) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.ended[peer]
	for c := range w.open {
		if c.peer == peer {
			n += c.bytes()
		}
	}
	return n
}

// sample is a count that was made within a span of time.
type sample struct {
	begin, end time.Time
	n          int64
}

// watch samples the bytes of a peer until stop is closed, and returns the samples.
func (w *wireCounter) watch(peer string, stop <-chan struct{}) (all []sample) {
	t := time.NewTicker(50 * time.Millisecond)
	defer t.Stop()
	for {
		s := sample{begin: time.Now(), n: w.of(peer)}
		s.end = time.Now()
		all = append(all, s)
		select {
		case <-stop:
			return all
		case <-t.C:
		}
	}
}

// fastest returns the highest mean rate, in bytes per second, of any window of at least 10 s. What
// passed while a busy machine kept the test from counting belongs to the longer window.
func fastest(all []sample) (rate float64) {
	from := 0
	for _, s := range all {
		for from+1 < len(all) && s.end.Sub(all[from+1].begin) >= 10*time.Second {
			from++
		}
		if d := s.end.Sub(all[from].begin).Seconds(); d >= 10 {
			rate = max(rate, float64(s.n-all[from].n)/d)
		}
	}
	return rate
}

// serveLarge serves n endless sites with large pages, each in a subnet of its own, and returns
// their URLs. A peer is known by the name at the end of its contact URL.
func (w *wireCounter) serveLarge(t *testing.T, n int) (urls []string) {
	t.Helper()
	filler := strings.Repeat("<p>words that fill a page</p>\n", 4000)
	handler := http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		c := r.Context().Value(connKey{}).(*wireConn)
		_, name, _ := strings.Cut(r.UserAgent(), "example.org/")
		w.mu.Lock()
		c.peer, _, _ = strings.Cut(name, ")")
		w.mu.Unlock()
		k := 0
		if r.URL.Path != "/" {
			if _, err := fmt.Sscanf(r.URL.Path, "/page/%d", &k); err != nil {
				http.NotFound(out, r)
				return
			}
		}
		out.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(out, `<title>page %d</title><a href="/page/%d">next</a><a href="/page/%d">`+
			`after</a>%s%d`, k, k+1, k+2, filler, k)
	})
	for i := range n {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.121.%d.1:0", i))
		if err != nil {
			t.Fatal(err)
		}
		s := &http.Server{Handler: handler,
			ConnContext: func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, c)
			}}
		go s.Serve(wireListener{ln, w})
		t.Cleanup(func() { s.Close() })
		urls = append(urls, "http://"+ln.Addr().String()+"/")
	}
	return urls
}

// connKey is the key of the connection in the context of a request.
type connKey struct{}

type wireListener struct {
	net.Listener
	all *wireCounter
}

// Accept returns the next connection.
func (l wireListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.all.add(c, ""), nil
}

// relay passes connections on to the peer at to, and returns the multiaddr that others dial. The
// connection from the test to this peer counts for its name, the other one for that of the other.
func (w *wireCounter) relay(t *testing.T, to, name, other string) string {
	t.Helper()
	target, err := ma.NewMultiaddr(to)
	if err != nil {
		t.Fatal(err)
	}
	ip, _ := target.ValueForProtocol(ma.P_IP4)
	port, _ := target.ValueForProtocol(ma.P_TCP)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", net.JoinHostPort(ip, port))
			if err != nil {
				in.Close()
				continue
			}
			a, b := w.add(in, other), w.add(out, name)
			go func() { io.Copy(a, b); a.Close(); b.Close() }()
			go func() { io.Copy(b, a); a.Close(); b.Close() }()
		}
	}()
	return fmt.Sprintf("/ip4/127.0.0.1/tcp/%d", ln.Addr().(*net.TCPAddr).Port)
}

// newMeasured creates a peer with a name, by which its traffic is counted, and limits it.
func newMeasured(t *testing.T, name, announce, limits string, flags ...string) *daemon {
	t.Helper()
	d := newDaemon(t, flags...)
	file := filepath.Join(d.home, "config.toml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	top := ""
	if announce != "" {
		top = fmt.Sprintf("announce = [%q]\n", announce)
	}
	settings := top + strings.Replace(string(text), "/crawler'", "/"+name+"'", 1) + limits
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return d
}

// A cap on all bytes holds over any 10 s, by the counts of the kernel, is used, and can be changed;
// and peers under a cap keep their subnets.
func TestTrafficCap(t *testing.T) {
	t.Parallel()
	const firstCap, secondCap = 500e3, 200e3
	w := newWireCounter()
	sites := w.serveLarge(t, 24)
	at := []string{freeAddr(t, 71), freeAddr(t, 72)}
	names := []string{"first", "second"}
	profile := filepath.Join(t.TempDir(), "any.toml")
	if err := os.WriteFile(profile, []byte("name = 'x'\n[scope]\nmode = 'any'\n"+
		"[politeness]\nmin_delay = '1ms'\ndelay_factor = 0.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var ds []*daemon
	for i, name := range names {
		ds = append(ds, newMeasured(t, name, w.relay(t, at[i], name, names[1-i]),
			"[traffic]\nbandwidth = '500kB'\n", "--listen", at[i], "--profile", profile,
			"--allow-net", "127.121.0.0/16", "--min-delay", "1ms", "--log-level", "info"))
	}
	meet(t, ds)
	crawl := func(limit float64, over time.Duration) {
		t.Helper()
		stop, done := make(chan struct{}), make(chan struct{})
		var all [2][]sample
		var g sync.WaitGroup
		for i, name := range names {
			g.Go(func() { all[i] = w.watch(name, stop) })
		}
		go func() { g.Wait(); close(done) }()
		for end := time.Now().Add(over); time.Now().Before(end); time.Sleep(time.Second) {
			for _, d := range ds {
				s, err := d.ask()
				if err != nil {
					t.Fatal(err)
				}
				if len(s.Blocked) > 0 || s.Handovers.Takeovers > 0 {
					t.Errorf("blocked %q, %d takeovers", s.Blocked, s.Handovers.Takeovers)
				}
			}
		}
		close(stop)
		<-done
		busiest := 0.0
		for i, name := range names {
			rate := fastest(all[i])
			mean := float64(all[i][len(all[i])-1].n-all[i][0].n) / over.Seconds()
			busiest = max(busiest, mean)
			t.Logf("%s: at most %.0f bytes/s in 10 s, %.0f in the mean, with a cap of %.0f",
				name, rate, mean, limit)
			// 5 % are wanted, and hold for the bucket in virtual time. On a busy machine the
			// sockets may let pass together what they held while no process ran.
			if rate > 1.1*limit {
				t.Errorf("%s: %.0f bytes/s in 10 s, want at most %.0f", name, rate, 1.1*limit)
			}
		}
		// Which of the peers fetches the most depends on their estimations.
		if busiest < limit/2 {
			t.Errorf("busiest peer: %.0f bytes/s in the mean, so the cap did not matter", busiest)
		}
	}
	for i, d := range ds {
		half := sites[i*len(sites)/2 : (i+1)*len(sites)/2]
		peerd(t, append([]string{"seed", "--home", d.home}, half...)...)
	}
	crawl(firstCap, 40*time.Second)
	for _, d := range ds {
		peerd(t, "config", "set", "--home", d.home, "traffic.bandwidth", "200kB")
		peerd(t, "reload", "--home", d.home)
	}
	crawl(secondCap, 75*time.Second)
}

// The monthly volume is not exceeded, though the peer is killed again and again, and then the peer
// says so and fetches nothing. The peer estimates the headers of TCP and IP. There are more of them
// with the smaller segments of a busy machine: 2 % are allowed for that.
func TestMonthlyVolume(t *testing.T) {
	const volume = 20e6
	w := newWireCounter()
	sites := w.serveLarge(t, 8)
	d := newMeasured(t, "only", "", "[traffic]\nmonthly_volume = '20MB'\n", "--listen",
		"/ip4/127.0.0.1/tcp/0", "--allow-net", "127.121.0.0/16", "--min-delay", "1ms")
	d.run()
	peerd(t, append([]string{"seed", "--home", d.home}, sites...)...)
	for _, at := range []int64{2e6, 5e6, 8e6} {
		eventually(t, time.Minute, "bytes to kill the peer at", func() (bool, any) {
			return w.of("only") >= at, w.of("only")
		})
		d.kill()
		d.run()
	}
	heldBack := func() (bool, any) {
		s, err := d.ask()
		return err == nil && s.Health.State == admin.HealthHeldBack &&
			strings.Contains(s.Health.Why, "traffic.monthly_volume"), s.Health
	}
	eventually(t, 2*time.Minute, "the volume is used up", heldBack)
	used := w.of("only")
	d.kill()
	d.run()
	eventually(t, 10*time.Second, "the volume stays used up", heldBack)
	t.Logf("%d bytes of %.0f were used", used, volume)
	if more := w.of("only") - used; more > 1000 || float64(used) > 1.02*volume || used < volume/2 {
		t.Errorf("used %d bytes, and %d after a restart", used, more)
	}
	peerd(t, "config", "set", "--home", d.home, "traffic.monthly_volume", "40MB")
	peerd(t, "reload", "--home", d.home)
	eventually(t, time.Minute, "the crawl continues with more volume", func() (bool, any) {
		return w.of("only") > used+1e6, w.of("only")
	})
}
