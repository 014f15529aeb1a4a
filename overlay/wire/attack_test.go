package wire_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"

	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

const attacked = "/test/attacked/1"

// victim serves messages of up to 4 MiB with a long timeout and answers with their length.
func victim(t *testing.T) host.Host {
	t.Helper()
	h := overlaytest.Host(t)
	limits := wire.Limits{MaxMsg: 4 << 20, Timeout: time.Hour}
	s := wire.Serve(h, attacked, limits, nil, func(_ context.Context, c *wire.Conn) error {
		for {
			var text string
			if err := c.Recv(&text); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := c.Send(len(text)); err != nil {
				return err
			}
		}
	})
	t.Cleanup(s.Close)
	return h
}

// ask sends a text of n bytes to the victim and checks the answer.
func ask(t *testing.T, from, to host.Host, n int) error {
	t.Helper()
	c, err := wire.Dial(t.Context(), from, to.ID(), wire.Limits{MaxMsg: 1 << 10,
		Timeout: time.Minute}, attacked)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Reset()
	var got int
	if err := errors.Join(c.Send(strings.Repeat("x", n)), c.Recv(&got)); err != nil {
		return err
	}
	if got != n {
		t.Errorf("answer = %d, want %d", got, n)
	}
	return nil
}

// open opens a stream to the victim and writes b.
func open(t *testing.T, from, to host.Host, b []byte) network.Stream {
	t.Helper()
	s, err := from.NewStream(t.Context(), to.ID(), attacked)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Reset() })
	_, _ = s.Write(b) // it may have been reset
	return s
}

// Streams on which nothing comes take no place from others.
func TestSilentStreams(t *testing.T) {
	v, honest := victim(t), overlaytest.Host(t)
	overlaytest.Introduce(v, honest)
	for range 3 {
		attacker := overlaytest.Host(t)
		overlaytest.Introduce(v, attacker)
		for i := range 120 { // together more than there are places
			var b []byte
			if i%2 == 1 {
				b = []byte{200} // the length of a frame has begun
			}
			open(t, attacker, v, b)
		}
	}
	if err := ask(t, honest, v, 100); err != nil {
		t.Errorf("a peer was not answered during the attack: %v", err)
	}
}

// A frame that has begun must come: its conversation ends long before the usual timeout.
func TestSlowFrame(t *testing.T) {
	v, attacker := victim(t), overlaytest.Host(t)
	overlaytest.Introduce(v, attacker)
	streams := map[string]network.Stream{}
	for name, b := range map[string][]byte{
		"nothing": nil, "a length": {200, 1}, "half a frame": {2, 0x61},
	} {
		streams[name] = open(t, attacker, v, b)
	}
	for name, s := range streams { // they wait at the same time
		if n, err := io.Copy(io.Discard, s); err == nil || n > 0 {
			t.Errorf("after %s: %d bytes and %v, want a reset", name, n, err)
		}
	}
}

// A peer sends large messages only after it has introduced itself.
func TestLargeMessageOfStranger(t *testing.T) {
	v, peer := victim(t), overlaytest.Host(t)
	overlaytest.Introduce(v, peer)
	if err := ask(t, peer, v, 500<<10); err != nil {
		t.Errorf("a message of 500 KiB: %v, want an answer", err)
	}
	if ask(t, peer, v, 2<<20) == nil {
		t.Error("a message of 2 MiB was answered, want a reset")
	}
	wire.Meet(v.Peerstore(), peer.ID())
	if err := ask(t, peer, v, 2<<20); err != nil {
		t.Errorf("a message of 2 MiB after the introduction: %v, want an answer", err)
	}
}

// Frames that never end use up the memory of their sender only.
func TestMemoryOfOnePeer(t *testing.T) {
	t.Cleanup(wire.SetMemory(8 << 20))
	v, attacker, honest := victim(t), overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(v, attacker, honest)
	frame := binary.AppendUvarint(nil, 1<<20)
	frame = append(frame, bytes.Repeat([]byte{0}, 4<<10)...)
	for range 100 {
		open(t, attacker, v, frame)
	}
	overlaytest.Until(t, "memory is in use", func() bool { return wire.InUse() > 1<<20 })
	if n := wire.InUse(); n > 2<<20 {
		t.Errorf("%d bytes are in use, want a quarter of 8 MiB at most", n)
	}
	if err := ask(t, honest, v, 500<<10); err != nil {
		t.Errorf("a peer was not answered during the attack: %v", err)
	}
}

// What a receiver makes of a message counts until it receives the next one.
func TestUse(t *testing.T) {
	t.Cleanup(wire.SetMemory(64 << 20))
	from, to := overlaytest.Host(t), overlaytest.Host(t)
	overlaytest.Introduce(from, to)
	next := make(chan struct{})
	server := wire.Serve(to, "/use", wire.Limits{MaxMsg: 100, Timeout: time.Minute}, nil,
		func(_ context.Context, c *wire.Conn) error {
			for v := 0; ; <-next {
				if err := errors.Join(c.Recv(&v), c.Use(2<<20), c.Send(v)); err != nil {
					return err
				}
			}
		})
	defer server.Close()
	conn, err := wire.Dial(t.Context(), from, to.ID(),
		wire.Limits{MaxMsg: 100, Timeout: time.Minute}, "/use")
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		v := 7
		if err := errors.Join(conn.Send(v), conn.Recv(&v)); err != nil {
			t.Fatal(err)
		}
		if n := wire.InUse(); n != 2<<20 {
			t.Errorf("%d bytes are in use, want 2 MiB", n)
		}
		next <- struct{}{}
	}
	conn.Reset()
	overlaytest.Until(t, "nothing is in use", func() bool { return wire.InUse() == 0 })
}
