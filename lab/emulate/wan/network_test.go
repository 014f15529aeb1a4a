package wan

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// The tests here use real sockets and real time, with lower bounds only.

var (
	client = netip.MustParseAddr("127.200.1.1")
	server = netip.MustParseAddr("127.200.2.1")
)

// testNetwork has a client and a server rtt apart, no jitter.
func testNetwork(t testing.TB, rtt time.Duration) *Network {
	w, err := FromMatrix(nil, [][]time.Duration{{0, rtt}, {rtt, 0}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	n := NewNetwork(w)
	n.Place(client, 0)
	n.Place(server, 1)
	t.Cleanup(func() { n.Close() })
	return n
}

// listen serves every connection at server's address with serve.
func listen(t testing.TB, serve func(net.Conn)) string {
	ln, err := net.Listen("tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return ln.Addr().String()
}

func echo(c net.Conn) { _, _ = io.Copy(c, c) }

func TestDialFails(t *testing.T) {
	n := testNetwork(t, 60*ms)
	dial := n.Dialer(0, client)
	ln, err := net.Listen("tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	start := time.Now()
	if _, err := dial(t.Context(), "tcp", ln.Addr().String()); !errors.Is(err,
		syscall.ECONNREFUSED) || time.Since(start) < 60*ms {
		t.Errorf("refused: %v after %v", err, time.Since(start))
	}
	if _, err := dial(t.Context(), "tcp", "127.200.3.1:80"); !errors.Is(err, ErrNoPlace) {
		t.Errorf("dial to an address without a place: err = %v, want %v", err, ErrNoPlace)
	}
	if _, err := dial(t.Context(), "tcp", "localhost:80"); err == nil {
		t.Error("dial to a name succeeded, want an error")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*ms)
	defer cancel()
	if _, err := dial(ctx, "tcp", listen(t, echo)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestHalfCloseAndReset(t *testing.T) {
	n := testNetwork(t, 20*ms)
	dial := n.Dialer(0, client)
	t.Run("half-close", func(t *testing.T) {
		c, err := dial(t.Context(), "tcp", listen(t, func(s net.Conn) {
			all, _ := io.ReadAll(s) // until the client has nothing more to say
			_, _ = s.Write(append([]byte("got "), all...))
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("all"))
		if err := c.(*Conn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(c); string(got) != "got all" || err != nil {
			t.Fatalf("%q, %v", got, err)
		}
	})
	t.Run("reset", func(t *testing.T) {
		c, err := dial(t.Context(), "tcp", listen(t, func(s net.Conn) {
			_, _ = s.Read(make([]byte, 1))
			_ = s.(*net.TCPConn).SetLinger(0)
		}))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("x"))
		if _, err := io.ReadAll(c); !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	})
}

// Network.Close ends connections in every state and their goroutines.
func TestNetworkClose(t *testing.T) {
	n := testNetwork(t, 50*ms)
	dial := n.Dialer(0, client)
	silent := make(chan struct{})
	defer close(silent)
	addr := listen(t, func(net.Conn) { <-silent })
	for i := range 6 {
		c, err := dial(t.Context(), "tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_, _ = c.Write(make([]byte, 60_000))
		}
		if i%3 == 0 {
			c.Close()
		}
		if i == 1 {
			_ = c.(*Conn).CloseWrite()
		}
	}
	n.Close()
	if len(n.conns) != 0 {
		t.Errorf("%d connections are left, want 0", len(n.conns))
	}
	if _, err := dial(t.Context(), "tcp", addr); !errors.Is(err, net.ErrClosed) {
		t.Errorf("dial after close: %v", err)
	}
}

func TestHTTPOverANetwork(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		_, _ = w.Write(make([]byte, 200_000))
	}))
	srv.Listener.Close()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(server, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	srv.Listener = ln
	srv.Start()
	defer srv.Close()
	n := testNetwork(t, 30*ms)
	tr := &http.Transport{DialContext: n.Dialer(0, client)}
	defer tr.CloseIdleConnections()
	for _, trips := range []int{2, 1} { // with and without a dial
		start := time.Now()
		resp, err := (&http.Client{Transport: tr}).Get(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		l := n.World().Link(0, 1)
		want := time.Duration(trips)*l.RTT + l.Transfer(200_000)
		if err != nil || len(body) != 200_000 ||
			time.Since(start) < want {
			t.Errorf("%d bytes after %v, want %v: %v", len(body), time.Since(start), want, err)
		}
	}
}
