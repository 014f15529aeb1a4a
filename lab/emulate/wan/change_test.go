package wan

import (
	"bytes"
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Slowed, Loaded and WithBandwidth return another world and do not modify the first.
func TestWorldsChange(t *testing.T) {
	w := NewWorld(Cities(), 1)
	before := w.Link(3, 5)
	if got := w.Slowed(3, 50).Link(3, 5); got.RTT != before.RTT || got.Bps > before.Bps/2 {
		t.Errorf("slowed: %+v, was %+v", got, before)
	}
	if got := w.Loaded(5, 70*ms).Link(3, 5); got.RTT != before.RTT+70*ms || got.Bps != before.Bps ||
		got.Jitter != before.Jitter {
		t.Errorf("loaded: %+v, was %+v", got, before)
	}
	narrow := w.WithBandwidth(1e5, 2e5)
	for i := range w.Len() {
		if b := narrow.Link(i, 0).Bps; b < 1e5 || b > 2e5 {
			t.Errorf("place %d has %v bytes per second, out of range", i, b)
		}
	}
	if b := narrow.Select([]int{2, 7}).Link(0, 1).Bps; b < 1e5 || b > 2e5 {
		t.Errorf("selected world has %v bytes per second, out of range", b)
	}
	if w.Link(3, 5) != before {
		t.Error("first world was modified")
	}
}

// A change of the link applies to an open connection.
func TestChangeOfOpenConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		send := func() time.Duration {
			start := time.Now()
			if _, err := far.Write(bytes.Repeat([]byte{1}, 10_000)); err != nil {
				t.Fatal(err)
			}
			readN(t, near, 10_000)
			return time.Since(start)
		}
		if took := send(); took != 60*ms {
			t.Fatalf("took %v, want 60ms", took)
		}
		near.change(Link{RTT: 100 * ms, Bps: 2e5})
		if took := send(); took != 100*ms {
			t.Errorf("a fifth of the bandwidth: took %v, want 100ms", took)
		}
		near.change(Link{RTT: 300 * ms, Bps: 1e6})
		if took := send(); took != 160*ms {
			t.Errorf("200 ms more: took %v, want 160ms", took)
		}
		near.change(Link{RTT: 100 * ms, Bps: 1e6})
		if took := send(); took != 60*ms {
			t.Errorf("recovered: took %v, want 60ms", took)
		}
	})
}

// Change affects open and future connections of a network.
func TestNetworkChange(t *testing.T) {
	n := testNetwork(t, ms)
	addr := listen(t, echo)
	trip := func(c net.Conn) time.Duration {
		start := time.Now()
		if _, err := c.Write([]byte("ping")); err != nil {
			t.Fatal(err)
		}
		readN(t, c, 4)
		return time.Since(start)
	}
	c, err := n.Dialer(0, client)(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	n.Change(n.World().Loaded(0, 150*ms))
	if took := trip(c); took < 150*ms {
		t.Errorf("an open connection: %v, want at least 150ms", took)
	}
	start := time.Now()
	d, err := n.Dialer(0, client)(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if took := time.Since(start); took < 150*ms {
		t.Errorf("a dial: %v, want at least 150ms", took)
	}
}

// What is sent during a cut arrives when it has ended, and so does what was in flight.
func TestCutConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pair(t, Link{RTT: 100 * ms, Bps: 1e6})
		start := time.Now()
		if _, err := near.Write([]byte("before")); err != nil {
			t.Fatal(err)
		}
		near.change(Link{RTT: 100 * ms, Bps: 1e6, Cut: true})
		if _, err := near.Write([]byte("during")); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Minute, func() { near.change(Link{RTT: 100 * ms, Bps: 1e6}) })
		if got := readN(t, far, 12); string(got) != "beforeduring" ||
			time.Since(start) != time.Minute {
			t.Errorf("%q arrived after %v, want all of it after 1m", got, time.Since(start))
		}
	})
}

// A dial to another part of the network ends with its context, or succeeds when the parts are
// connected again; places in the same part are not cut off from each other.
func TestDialWhileCut(t *testing.T) {
	n := testNetwork(t, ms)
	whole := n.World()
	addr := listen(t, echo)
	n.Change(whole.Parted(0, 1))
	short, cancel := context.WithTimeout(t.Context(), 20*ms)
	defer cancel()
	if c, err := n.Dialer(0, client)(short, "tcp", addr); !errors.Is(err, short.Err()) {
		t.Fatalf("dial = %v, %v, want %v", c, err, context.DeadlineExceeded)
	}
	done := make(chan error, 1)
	go func() {
		c, err := n.Dialer(0, client)(t.Context(), "tcp", addr)
		if err == nil {
			c.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("dial ended during the cut: %v", err)
	case <-time.After(50 * ms):
	}
	n.Change(whole)
	if err := <-done; err != nil {
		t.Error(err)
	}
	both := whole.Parted(0, 1).Parted(1, 1)
	if both.Link(0, 1).Cut || !both.Parted(1, 2).Link(0, 1).Cut {
		t.Error("Link() is wrong about who is cut off from whom")
	}
}
