package wire

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	mocknet "github.com/libp2p/go-libp2p/p2p/net/mock"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const proto = "/test/echo/1"

func pair(t *testing.T) (a, b host.Host) {
	t.Helper()
	net, err := mocknet.FullMeshConnected(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := net.Close(); err != nil {
			t.Error(err)
		}
	})
	return net.Hosts()[0], net.Hosts()[1]
}

func TestServe(t *testing.T) {
	a, b := pair(t)
	limits := Limits{MaxMsg: 1 << 10, Timeout: time.Minute}
	s := Serve(a, proto, limits, nil, func(_ context.Context, c *Conn) error {
		for {
			var m string
			if err := c.Recv(&m); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if m == "panic" {
				panic(m)
			}
			if err := c.SendZ(m + " " + c.Peer().String()); err != nil {
				return err
			}
		}
	})
	defer s.Close()

	c, err := Dial(t.Context(), b, a.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"one", "two"} {
		var got string
		if err := errors.Join(c.Send(m), c.RecvZ(&got)); err != nil ||
			got != m+" "+b.ID().String() {
			t.Errorf("answer to %s = %q, %v, want it with the peer ID", m, got, err)
		}
	}
	if err := errors.Join(c.CloseWrite(), c.Recv(new(string))); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v, want io.EOF", err)
	}
	c.End(nil)

	c, err = Dial(t.Context(), b, a.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	if err := errors.Join(c.Send("panic"), c.Recv(new(string))); err == nil ||
		errors.Is(err, io.EOF) {
		t.Errorf("after a panic: %v, want a reset", err)
	}
}

// A frame without a message is none: the handler is not called.
func TestServeEmptyFrame(t *testing.T) {
	a, b := pair(t)
	limits := Limits{MaxMsg: 1 << 10, Timeout: time.Hour}
	s := Serve(a, proto, limits, nil, func(context.Context, *Conn) error {
		t.Error("called for an empty frame")
		return nil
	})
	defer s.Close()
	c, err := Dial(t.Context(), b, a.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	if _, err := c.stream.Write([]byte{0}); err != nil {
		t.Fatal(err)
	}
	if err := c.Recv(new(string)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("after an empty frame: %v, want a reset", err)
	}
}

// Close ends a handler that waits for a silent peer, and waits for the handler.
func TestServeClose(t *testing.T) {
	a, b := pair(t)
	limits := Limits{MaxMsg: 1 << 10, Timeout: time.Hour}
	entered, left := make(chan struct{}), make(chan error, 1)
	s := Serve(a, proto, limits, nil, func(_ context.Context, c *Conn) error {
		if err := c.Recv(new(string)); err != nil {
			return err
		}
		close(entered)
		err := c.Recv(new(string))
		left <- err
		return err
	})
	c, err := Dial(t.Context(), b, a.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	if err := c.Send("hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.stream.Write([]byte{200}); err != nil { // the start of a frame
		t.Fatal(err)
	}
	<-entered
	s.Close()
	s.Close()
	select {
	case err := <-left:
		if err == nil {
			t.Error("Recv() = nil in the handler, want an error")
		}
	default:
		t.Error("Close returned before the handler, want after")
	}
}

// The end of the context ends an idle conversation.
func TestDialContext(t *testing.T) {
	a, b := pair(t)
	limits := Limits{MaxMsg: 1 << 10, Timeout: time.Hour}
	s := Serve(a, proto, limits, nil, func(ctx context.Context, _ *Conn) error {
		<-ctx.Done()
		return nil
	})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := Dial(ctx, b, a.ID(), limits, proto)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	if err := c.Send("hello"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := c.Recv(new(string)); err == nil {
		t.Error("Recv() = nil after the end of the context, want an error")
	}
}
