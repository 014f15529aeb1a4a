package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
)

// drainFunc is a drainer made of a function.
type drainFunc func(ctx context.Context) error

func (f drainFunc) Drain(ctx context.Context) error { return f(ctx) }

// pair runs a peer for the length of the test, and returns another one that does
// not run yet and will know it, drained by d.
func pair(t *testing.T, d drainer) *Node {
	t.Helper()
	other := newNode(t, options(t))
	t.Cleanup(running(t, other))
	o := options(t)
	o.Config.Bootstrap = other.Addrs()
	n := newNode(t, o)
	n.leave.by = d
	return n
}

// left runs n, has it leave once it knows the other peer, and returns what it
// said last.
func left(t *testing.T, n *Node, limit time.Duration) (last admin.Drain) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	until(t, 10*time.Second, "it knows the other", func() bool { return n.peers.Directory().Len() > 0 })
	if err := n.Leave(t.Context(), limit, func(d admin.Drain) error { last = d; return nil }); err != nil {
		t.Errorf("Leave: %v", err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run: %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it runs on after it has left")
	}
	return last
}

func TestLeaveHandsOverFirst(t *testing.T) {
	drained := false
	var n *Node
	n = pair(t, drainFunc(func(context.Context) error {
		drained = true
		if _, err := n.Seed(t.Context(), []string{"http://a.example/"}); !errors.Is(err, admin.ErrStopping) {
			t.Errorf("Seed while it leaves: %v", err)
		}
		if _, ok := n.leave.errand(); ok {
			t.Error("an errand is taken while it leaves")
		}
		return nil
	}))
	if last := left(t, n, time.Minute); !drained || last != (admin.Drain{Over: true}) {
		t.Errorf("drained %v, said %+v", drained, last)
	}
}

func TestLeaveWaitsForErrands(t *testing.T) {
	n := pair(t, drainFunc(func(context.Context) error { return nil }))
	done, ok := n.leave.errand()
	if !ok {
		t.Fatal("no errand is taken")
	}
	begin := time.Now()
	time.AfterFunc(time.Second, done)
	if last := left(t, n, time.Minute); last.Fault != "" || time.Since(begin) < time.Second {
		t.Errorf("%+v after %v", last, time.Since(begin))
	}
}

func TestLeaveIsBounded(t *testing.T) {
	forever := drainFunc(func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	if last := left(t, pair(t, forever), 200*time.Millisecond); !last.Over || !strings.Contains(last.Fault, "deadline") {
		t.Errorf("said %+v", last)
	}
	n := pair(t, forever)
	n.leave.by = drainFunc(func(ctx context.Context) error { n.Stop(); return forever(ctx) })
	if last := left(t, n, time.Hour); !last.Over || last.Fault == "" {
		t.Errorf("cut short, it said %+v", last)
	}
}

// Alone there is nobody to hand anything to, and nothing to wait for.
func TestLeaveOfALonePeer(t *testing.T) {
	n := newNode(t, options(t))
	n.leave.by = drainFunc(func(context.Context) error { t.Error("drained"); return nil })
	n.StopDrained(time.Hour)
	if err := n.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if d := n.drained(true); d.Fault == "" {
		t.Errorf("said %+v", d)
	}
}
