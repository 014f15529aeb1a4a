package node

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"peerd/node/admin"
)

// drainForever drains until ctx ends.
func drainForever(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// pair returns a peer that does not run yet and that d drains. It will know a second peer,
// which runs until stopOther is called or the test ends.
func pair(t *testing.T, d func(context.Context) error) (n *Node, stopOther func()) {
	t.Helper()
	other := newNode(t, options(t))
	stopOther = running(t, other)
	t.Cleanup(stopOther)
	o := options(t)
	o.Config.Bootstrap = other.Addrs()
	n = newNode(t, o)
	n.leaving.drain = d
	return n, stopOther
}

// leave runs n, stops it with Leave once it knows the other peer, and returns all reports.
func leave(t *testing.T, n *Node, limit time.Duration) []admin.Drain {
	t.Helper()
	return leaveAnd(t, n, limit, func(int) {})
}

// leaveAnd is leave that calls reported with the number of reports after each of them.
func leaveAnd(
	t *testing.T, n *Node, limit time.Duration, reported func(int),
) (reports []admin.Drain) {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()
	until(t, time.Minute, "it knows the other peer", func() bool {
		return n.peers.Directory().Len() > 0
	})
	if err := n.Leave(t.Context(), limit, func(d admin.Drain) error {
		reports = append(reports, d)
		reported(len(reports))
		return nil
	}); err != nil {
		t.Errorf("Leave() = %v", err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("Run() = %v", err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("Run() has not returned five minutes after Leave()")
	}
	if last := reports[len(reports)-1]; !last.Done {
		t.Errorf("last report = %+v, want Done", last)
	}
	return reports
}

func last(reports []admin.Drain) admin.Drain { return reports[len(reports)-1] }

func TestLeaveHandsOverFirst(t *testing.T) {
	drained := false
	var n *Node
	n, _ = pair(t, func(context.Context) error {
		drained = true
		if _, err := n.Seed(t.Context(), []string{"http://a.example/"}); !errors.Is(err,
			admin.ErrStopping) {
			t.Errorf("Seed() during the stop = %v, want ErrStopping", err)
		}
		if _, ok := n.leaving.startRemoteFetch(); ok {
			t.Error("startRemoteFetch() during the stop = true, want false")
		}
		return nil
	})
	if got := last(leave(t, n, time.Minute)); !drained || got != (admin.Drain{Done: true}) {
		t.Errorf("drained = %v, last report = %+v", drained, got)
	}
}

// While nothing changes, Leave reports at least once a second.
func TestLeaveWaitsForRemoteFetches(t *testing.T) {
	t.Parallel()
	n, _ := pair(t, func(context.Context) error { return nil })
	done, ok := n.leaving.startRemoteFetch()
	if !ok {
		t.Fatal("startRemoteFetch() before the stop = false, want true")
	}
	giveUp := time.AfterFunc(5*time.Minute, func() { t.Error("nothing is reported"); done() })
	reports := leaveAnd(t, n, time.Hour, func(reports int) {
		if reports == 3 && giveUp.Stop() {
			done()
		}
	})
	if got := last(reports); got.Reason != "" || len(reports) < 4 {
		t.Errorf("last of %d reports = %+v, want no reason after the fetch", len(reports), got)
	}
}

func TestLeaveHasLimit(t *testing.T) {
	n, _ := pair(t, drainForever)
	got := last(leave(t, n, 200*time.Millisecond))
	if !strings.Contains(got.Reason, "deadline") {
		t.Errorf("last report = %+v, want the deadline as the reason", got)
	}
}

func TestStopEndsLeave(t *testing.T) {
	n, _ := pair(t, nil)
	n.leaving.drain = func(ctx context.Context) error {
		n.Stop()
		return drainForever(ctx)
	}
	if got := last(leave(t, n, time.Hour)); got.Reason == "" {
		t.Errorf("last report = %+v, want a reason", got)
	}
}

// When the last other peer ends during the handover, Leave does not wait for the limit.
func TestLeaveWithoutPeers(t *testing.T) {
	t.Parallel()
	n, stopOther := pair(t, nil)
	n.leaving.drain = func(ctx context.Context) error {
		stopOther()
		return drainForever(ctx)
	}
	if got := last(leave(t, n, time.Hour)); got.Reason != errNoPeers.Error() {
		t.Errorf("last report = %+v, want the reason %q", got, errNoPeers)
	}
}

// What was handed over in time is not called left because no other peer remains.
func TestLeaveAsTheLastPeerEnds(t *testing.T) {
	t.Parallel()
	n, stopOther := pair(t, nil)
	n.leaving.drain = func(ctx context.Context) error {
		stopOther()
		<-ctx.Done()
		return nil
	}
	if got := last(leave(t, n, time.Hour)); got != (admin.Drain{Done: true}) {
		t.Errorf("last report = %+v, want no reason", got)
	}
}

// A peer that knows no other peer does not try to hand anything over.
func TestLeaveAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t, options(t))
	n.leaving.drain = func(context.Context) error {
		t.Error("Drain() was called")
		return nil
	}
	n.StopDrained(time.Hour)
	if err := n.Run(t.Context()); err != nil {
		t.Error(err)
	}
	if d := n.drainProgress(true); d.Reason != errNoPeers.Error() {
		t.Errorf("drainProgress() = %+v, want the reason %q", d, errNoPeers)
	}
}

// A client learns that the handover is done although the peer has ended its request meanwhile.
func TestLeaveReportsTheEnd(t *testing.T) {
	t.Parallel()
	n := newNode(t, options(t))
	defer n.Close()
	for range 20 { // select chooses at random
		n.leaving = newLeaveState()
		ctx, cancel := context.WithCancel(t.Context())
		var got admin.Drain
		err := n.Leave(ctx, time.Hour, func(d admin.Drain) error {
			n.leaving.finish()
			cancel()
			got = d
			return nil
		})
		if err != nil || !got.Done {
			t.Fatalf("Leave() = %v, last report = %+v, want Done", err, got)
		}
	}
	n.leaving = newLeaveState()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.Leave(ctx, time.Hour, func(admin.Drain) error { return nil }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("Leave() with an ended context = %v", err)
	}
}
