package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"peerd/store"
)

// pipeConn is one end of an in-memory connection, with a TCP address.
type pipeConn struct{ net.Conn }

var pipeAddr = netip.MustParseAddr("127.8.0.1")

func (pipeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(pipeAddr, 80))
}

// pipeFetcher returns a fetcher for a synctest bubble: each connection takes delay to open, and is
// served by serve in memory.
func pipeFetcher(
	t *testing.T, delay time.Duration, serve func(c net.Conn, r *bufio.Reader),
	change func(*Config),
) *Fetcher {
	return newFetcher(t, func(c *Config) {
		c.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return nil, errors.New("dialer's own words for a timeout")
			}
			near, far := net.Pipe()
			go func() {
				defer far.Close()
				serve(far, bufio.NewReader(far))
			}()
			return pipeConn{near}, nil
		}
		if change != nil {
			change(c)
		}
	})
}

func pipeGet(f *Fetcher) Result {
	return f.Do(context.Background(), Request{URL: "http://site.example/", Addr: pipeAddr})
}

// serveAll responds to every request on a connection.
func serveAll(answer func(c net.Conn)) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			answer(c)
		}
	}
}

type lookups map[string]time.Duration

func (l lookups) TakeDuration(host string) time.Duration {
	defer delete(l, host)
	return l[host]
}

func TestPhases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := pipeFetcher(t, 50*time.Millisecond, serveAll(func(c net.Conn) {
			time.Sleep(120 * time.Millisecond)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab")
			time.Sleep(300 * time.Millisecond)
			io.WriteString(c, "cd")
		}), nil)
		defer f.Close()
		want := store.Timing{Connect: 50 * time.Millisecond, FirstByte: 120 * time.Millisecond,
			Body: 300 * time.Millisecond}
		want.DNS = 7 * time.Millisecond
		f.cfg.Lookups = lookups{"site.example": want.DNS}
		res := f.Do(t.Context(), Request{URL: "http://site.example/", Addr: pipeAddr})
		if res.Timing != want || string(res.Body) != "abcd" {
			t.Errorf("%+v %q %v, want %+v", res.Timing, res.Body, res.Err, want)
		}
		want.DNS, want.Connect, want.Reused = 0, 0, true
		if res := pipeGet(f); res.Timing != want {
			t.Errorf("reused: %+v, want %+v", res.Timing, want)
		}
	})
}

func TestTimeoutsOfPhases(t *testing.T) {
	silent := func(c net.Conn, _ *bufio.Reader) { io.Copy(io.Discard, c) }
	// dripping sends a burst, and then n bytes per second.
	dripping := func(burst, n int) func(c net.Conn) {
		return func(c net.Conn) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"+
				strings.Repeat("x", burst))
			for {
				if _, err := io.WriteString(c, strings.Repeat("x", n)); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}
	}
	unwanted := func(c net.Conn) {
		io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 100\r\n\r\n")
		time.Sleep(time.Hour)
	}
	def := DefaultConfig()
	tests := []struct {
		name  string
		delay time.Duration
		serve func(net.Conn, *bufio.Reader)
		want  store.Outcome
		took  time.Duration
	}{
		{"connect", time.Hour, silent, store.OutcomeTimeout, def.ConnectTimeout},
		{"head", 0, silent, store.OutcomeTimeout, def.HeadTimeout},
		{"body", 0, serveAll(dripping(0, 600)), store.OutcomeTimeout, def.TotalTimeout + def.RateWindow},
		{"slow body", 0, serveAll(dripping(0, 400)), store.OutcomeTimeout, def.RateWindow},
		{"body that gets slow", 0, serveAll(dripping(30_000, 1)), store.OutcomeTimeout, 2 * def.RateWindow},
		{"body not taken", 0, serveAll(unwanted), store.OutcomeHTTPError, def.DrainTimeout},
		{"request not read", 0, func(net.Conn, *bufio.Reader) {
			time.Sleep(time.Hour)
		}, store.OutcomeTimeout, def.TotalTimeout},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := pipeFetcher(t, tt.delay, tt.serve, nil)
				start := time.Now()
				res := pipeGet(f)
				if took := time.Since(start); res.Outcome != tt.want || took != tt.took {
					t.Errorf("%v after %v, want %v after %v (%v)", res.Outcome, took, tt.want,
						tt.took, res.Err)
				}
				if n := idle(f); n != 0 {
					t.Errorf("%d idle connections, want none", n)
				}
				time.Sleep(2 * time.Hour) // the servers must end, too
			})
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	for _, tt := range []struct {
		name, field string
		idle        time.Duration
	}{
		{"configured", "", 30 * time.Second},
		{"announced", "Keep-Alive: timeout=5, max=100\r\n", 4 * time.Second},
		{"announced too long", "Keep-Alive: timeout=500\r\n", 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answer := strings.Replace(okAnswer, "\r\n\r\n", "\r\n"+tt.field+"\r\n", 1)
				f := pipeFetcher(t, time.Millisecond, serveAll(func(c net.Conn) {
					io.WriteString(c, answer)
				}), nil)
				defer f.Close()
				reused := func() bool {
					res := pipeGet(f)
					if res.Outcome != store.OutcomeOK {
						t.Fatal(res.Outcome, res.Err)
					}
					return res.Timing.Reused
				}
				if reused() {
					t.Error("the first request used an idle connection")
				}
				for range 3 {
					time.Sleep(tt.idle - time.Millisecond)
					if !reused() {
						t.Error("a connection was closed before the idle timeout")
					}
				}
				time.Sleep(tt.idle + time.Millisecond)
				if n := idle(f); n != 0 {
					t.Errorf("%d idle connections after the idle timeout, want none", n)
				}
				if reused() {
					t.Error("a connection was reused after the idle timeout")
				}
			})
		})
	}
}

func TestPoolIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open atomic.Int64
		f := pipeFetcher(t, 0, func(c net.Conn, r *bufio.Reader) {
			open.Add(1)
			defer open.Add(-1)
			serveAll(func(c net.Conn) {
				time.Sleep(time.Second)
				io.WriteString(c, okAnswer)
			})(c, r)
		}, func(c *Config) { c.MaxIdle, c.MaxIdlePerHost = 3, 2 })
		burst := func(host string, n int) {
			for range n {
				go f.Do(context.Background(), Request{URL: store.URL("http://" + host + "/"),
					Addr: pipeAddr})
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
		}
		for _, step := range []struct {
			host string
			n    int
			want int64
		}{{"a", 1, 1}, {"a", 5, 2}, {"b", 5, 3}, {"c", 5, 3}, {"c", 2, 3}} {
			burst(step.host, step.n)
			if n := open.Load(); n != step.want || int64(idle(f)) != step.want {
				t.Errorf("after %d of %s: %d open, %d idle, want %d", step.n, step.host, n, idle(f),
					step.want)
			}
		}
		f.Close()
		synctest.Wait()
		if n := open.Load(); n != 0 || idle(f) != 0 {
			t.Errorf("%d connections open after Close, want none", n)
		}
	})
}
