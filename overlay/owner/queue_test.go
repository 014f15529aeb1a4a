package owner

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// dueOf returns how many entries of a queue are begun.
func dueOf(q *queue[int], now time.Time, v verdict) (n int) {
	q.due(now, func(netip.Prefix, *entry[int]) verdict {
		n++
		return v
	})
	return n
}

func TestQueue(t *testing.T) {
	t.Parallel()
	now := time.Now()
	q := &queue[int]{most: 1, wait: time.Second, waitMax: 4 * time.Second, cooldown: time.Second}
	q.add(subnetA, now, 1)
	q.add(subnetA, now, 2)
	q.add(subnetB, now, 3)
	if e, ok := q.get(subnetA); !ok || e.about != 1 || len(q.entries) != 1 {
		t.Fatalf("got %+v, %v of %d", e, ok, len(q.entries))
	}
	if dueOf(q, now.Add(-1), begin) != 0 {
		t.Error("an entry is due before its time")
	}
	if dueOf(q, now, skip) != 1 || q.busy() != 0 {
		t.Error("an entry that was skipped is busy")
	}
	if dueOf(q, now, begin) != 1 || q.busy() != 1 || dueOf(q, now, begin) != 0 {
		t.Error("an entry is begun twice")
	}
	for i, least := range []int{750, 1500, 3000, 3000} {
		q.fail(subnetA, now)
		e, _ := q.get(subnetA)
		wait := time.Duration(least) * time.Millisecond
		if d := e.next.Sub(now); d < wait || d > wait*5/3 {
			t.Errorf("failure %d: waits %v", i, d)
		}
	}
	now = now.Add(time.Minute)
	if !q.begin(subnetA, now, func(int) verdict { return begin }) ||
		q.begin(subnetA, now, func(int) verdict { return begin }) {
		t.Error("one entry is not begun once")
	}
	q.rest(subnetA, now)
	q.add(subnetA, now, 4)
	if dueOf(q, now, begin) != 0 || q.begin(subnetA, now, func(int) verdict { return begin }) {
		t.Error("an entry that rests is due")
	}
	if now = now.Add(time.Second); dueOf(q, now, begin) != 0 || len(q.entries) != 0 {
		t.Error("an entry that has rested is kept")
	}
	q.add(subnetA, now, 5)
	if dueOf(q, now, forget) != 1 || len(q.entries) != 0 {
		t.Error("an entry that was forgotten is kept")
	}
	q.add(subnetA, now, 6)
	if q.done(subnetA); len(q.entries) != 0 {
		t.Error("an entry that is done is kept")
	}
}

// Many subnets do not become as many tasks at once, and one that failed is done again.
func TestQueueTasks(t *testing.T) {
	t.Parallel()
	const n = 5
	now := time.Now()
	e := newEnv(Config{})
	q := &queue[int]{atOnce: 2}
	for i := range n {
		q.add(netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(i), 0}), 24), now, 1)
	}
	all := func(netip.Prefix) bool { return true }
	var err error
	do := func(context.Context, netip.Prefix, int) error { return err }
	begun := q.tasks(e, now, all, do)
	if len(begun) != 2 || len(q.tasks(e, now, all, do)) != 0 {
		t.Fatalf("%d began, want 2", len(begun))
	}
	begun[0](t.Context())
	if err = errMoved; len(q.entries) != n-1 || len(e.kick) != 1 {
		t.Errorf("%d left after one was done, %d kicks", len(q.entries), len(e.kick))
	}
	if begun[1](t.Context()); len(q.entries) != n-1 || q.busy() != 0 {
		t.Errorf("%d left after one failed, %d busy", len(q.entries), q.busy())
	}
	none := func(netip.Prefix) bool { return false }
	if len(q.tasks(e, time.Now().Add(time.Second), none, do)) != 0 || len(q.entries) != 0 {
		t.Errorf("%d left that are not wanted", len(q.entries))
	}
}
