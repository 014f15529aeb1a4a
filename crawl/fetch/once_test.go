package fetch

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"peerd/store"
)

// answerThen responds to the first request of each connection, and calls second with the next one.
func answerThen(t *testing.T, second func(c net.Conn)) *rawSite {
	return newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
		if !s.readRequest(r) {
			return
		}
		io.WriteString(c, okAnswer)
		if s.readRequest(r) {
			second(c)
		}
	})
}

// TestNoSecondSendOnReusedConnection has a server that reads a request on a reused connection and
// closes it without a response. The Transport of net/http would send the request again on a new
// connection, which Do must not.
func TestNoSecondSendOnReusedConnection(t *testing.T) {
	for name, hangUp := range map[string]func(net.Conn){
		"close": func(net.Conn) {},
		"reset": func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := answerThen(t, hangUp)
			f := newFetcher(t, nil)
			if res := s.get(f); res.Outcome != store.OutcomeOK {
				t.Fatal(res.Outcome, res.Err)
			}
			res := s.get(f)
			if res.Outcome != store.OutcomeReset || !res.Timing.Reused {
				t.Errorf("outcome %v, reused %v, %v, want Reset, true",
					res.Outcome, res.Timing.Reused, res.Err)
			}
			if n, conns := s.requests.Load(), s.conns.Load(); n != 2 || conns != 1 {
				t.Errorf("%d requests on %d connections, want 2 on 1", n, conns)
			}
		})
	}
}

// TestGivenUpRequestIsNotRepeated has a server that does not respond. After Do has given up, the
// kernel must not send the request again, so that the server sees a reset; but after a response it
// sees the end of the connection.
func TestGivenUpRequestIsNotRepeated(t *testing.T) {
	for _, answers := range []bool{false, true} {
		ended := make(chan error, 1)
		s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
			s.readRequest(r)
			if answers {
				io.WriteString(c, okAnswer)
			}
			_, err := r.ReadByte()
			ended <- err
		})
		f := newFetcher(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		if answers {
			f.Do(ctx, s.request())
			f.Close()
		} else {
			go func() {
				for s.requests.Load() == 0 {
					runtime.Gosched()
				}
				cancel()
			}()
			f.Do(ctx, s.request())
		}
		cancel()
		if err := <-ended; errors.Is(err, syscall.ECONNRESET) == answers {
			t.Errorf("with an answer: %v; the server sees %v", answers, err)
		}
	}
}

// Until the end of an idle connection has arrived here, the next request may cross it, which cannot
// be prevented. A FIN or RST stays visible in the socket; other data is only detected when it has
// been read.
func reachedSocket(c *conn) bool { return c.stale() || !c.usable() }
func reachedReader(c *conn) bool { return !c.usable() }

// await returns when reached is true for every idle connection of f.
func await(f *Fetcher, reached func(*conn) bool) {
	all := func() bool {
		f.pool.mu.Lock()
		defer f.pool.mu.Unlock()
		for _, of := range f.pool.idle {
			if slices.ContainsFunc(of, func(c *conn) bool { return !reached(c) }) {
				return false
			}
		}
		return true
	}
	for !all() {
		runtime.Gosched()
	}
}

// TestServerClosesIdleConnection has a server that closes each connection after a response that
// announced to keep it open. No fetch may fail, and the server must receive each request once.
func TestServerClosesIdleConnection(t *testing.T) {
	for name, ending := range map[string]func(net.Conn){
		"close": func(net.Conn) {},
		"reset": func(c net.Conn) { c.(*net.TCPConn).SetLinger(0) },
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
				if s.readRequest(r) {
					io.WriteString(c, okAnswer)
					<-ended // the answer has been read
					ending(c)
					c.Close()
					ended <- struct{}{}
				}
			})
			f := newFetcher(t, nil)
			const rounds = 200
			for i := range rounds {
				if res := s.get(f); res.Outcome != store.OutcomeOK {
					t.Fatalf("fetch %d: %v %v (reused %v)", i, res.Outcome, res.Err,
						res.Timing.Reused)
				}
				ended <- struct{}{}
				<-ended
				await(f, reachedSocket)
			}
			if n := s.requests.Load(); n != rounds {
				t.Errorf("server received %d requests, want %d", n, rounds)
			}
		})
	}
}

// TestUnsolicitedResponse has a server that sends a response on an idle connection, as some do with
// a 408. It must not be taken for the response to the next request.
func TestUnsolicitedResponse(t *testing.T) {
	said := make(chan struct{})
	s := newRawSite(t, func(s *rawSite, c net.Conn, r *bufio.Reader) {
		if s.readRequest(r) {
			io.WriteString(c, okAnswer)
			<-said // the answer has been read
			io.WriteString(c,
				"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			said <- struct{}{}
			io.Copy(io.Discard, c)
		}
	})
	f := newFetcher(t, nil)
	for range 50 {
		if res := s.get(f); res.Outcome != store.OutcomeOK || res.Status != 200 {
			t.Fatal(res.Outcome, res.Status, res.Err)
		}
		said <- struct{}{}
		<-said
		await(f, reachedReader)
	}
}

// TestServerClosesIdleSession is the same over TLS, where the end is a record, and over HTTP/2,
// where it is a frame.
func TestServerClosesIdleSession(t *testing.T) {
	for _, kind := range []string{"https", "h2"} {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, "127.7.1.10", kind, func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, r.Proto)
			})
			f := newFetcher(t, func(c *Config) { c.TLS = tlsRoots(s) })
			want := map[string]string{"https": "HTTP/1.1", "h2": "HTTP/2.0"}[kind]
			const rounds = 30
			for i := range rounds {
				res := f.Do(t.Context(), Request{URL: s.url("https", "example.com", "/"),
					Addr: s.addr})
				if res.Outcome != store.OutcomeOK || string(res.Body) != want || res.Timing.Reused {
					t.Fatalf("fetch %d: %v %q reused=%v %v", i, res.Outcome, res.Body,
						res.Timing.Reused, res.Err)
				}
				s.CloseClientConnections()
				await(f, reachedReader)
			}
			if n := s.hits.Load(); n != rounds {
				t.Errorf("server received %d requests, want %d", n, rounds)
			}
		})
	}
}

// brokenConn fails to write when broken is set, after the first after bytes.
type brokenConn struct {
	net.Conn
	broken *atomic.Bool
	after  *int
}

func (c brokenConn) Write(p []byte) (int, error) {
	if !c.broken.Load() {
		return c.Conn.Write(p)
	}
	n, _ := c.Conn.Write(p[:min(len(p), *c.after)])
	if *c.after -= n; n == len(p) {
		return n, nil
	}
	c.Close()
	return n, syscall.EPIPE
}

// TestSecondSendOnlyIfNothingWritten breaks an idle connection such that this is detected only
// while writing. Of TLS, the server reads whole records.
func TestSecondSendOnlyIfNothingWritten(t *testing.T) {
	long := "/" + strings.Repeat("x", 3*writeBuffer)
	for _, tt := range []struct {
		kind, path string
		after      int
		again      bool
	}{
		{"http", "/", 0, true}, {"http", "/", 1, false}, {"http", "/", 30, false},
		{"http", long, 0, true}, {"http", long, 1, false}, {"http", long, writeBuffer, false},
		{"https", "/", 0, true}, {"https", long, 0, true}, {"https", long, 30, true},
		{"https", long, writeBuffer + 100, false},
	} {
		s := newSite(t, "127.7.1.11", tt.kind, func(http.ResponseWriter, *http.Request) {})
		var broken atomic.Bool
		f := newFetcher(t, func(c *Config) {
			if c.HTTP2 = false; tt.kind == "https" {
				c.TLS = tlsRoots(s)
			}
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				broken.Store(false)
				c, err := new(net.Dialer).DialContext(ctx, network, addr)
				return brokenConn{c, &broken, &tt.after}, err
			}
		})
		get := func() Result {
			return f.Do(t.Context(), Request{URL: s.url(tt.kind, "example.com", tt.path),
				Addr: s.addr})
		}
		if res := get(); res.Outcome != store.OutcomeOK {
			t.Fatal(res.Outcome, res.Err)
		}
		after := tt.after
		broken.Store(true)
		res := get()
		if again := s.conns.Load() == 2; again != tt.again ||
			again != (res.Outcome == store.OutcomeOK) || res.Timing.Reused == again {
			t.Errorf("%s, %d of %d bytes: repeated %v, %v reused=%v %v", tt.kind, after,
				len(tt.path), again, res.Outcome, res.Timing.Reused, res.Err)
		}
	}
}
