package kv

import (
	"bytes"
	"context"
	"fmt"
	"runtime/pprof"
	"testing"
	"time"
)

// wantCompactors waits until n compactors of badger run.
func wantCompactors(t *testing.T, n int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var out bytes.Buffer
		must(t, pprof.Lookup("goroutine").WriteTo(&out, 2))
		got := bytes.Count(out.Bytes(), []byte(".runCompactor("))
		if got == n {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d compactors run, want %d", got, n)
		}
	}
}

// The compactors end when nothing has to be compacted for a while. They run again while values are
// reclaimed, when enough was written, which they compact, and at the end of Run.
func TestCompactorsRest(t *testing.T) {
	opened, err := Open(t.TempDir(), small)
	must(t, err)
	defer func() { must(t, opened.Close()) }()
	e := opened.(*badgerEngine)
	now := time.Now()
	update := func(after time.Duration) {
		now = now.Add(after)
		e.compactors.update(e.b, now)
	}
	levelZero := func() int { return e.b.Levels()[0].NumTables }

	for range 3 {
		update(calmFor / 3)
		wantCompactors(t, 2)
	}
	update(calmFor / 3)
	wantCompactors(t, 0)
	if e.reclaim() {
		t.Error("reclaim of an empty store found something")
	}
	wantCompactors(t, 2)
	now = time.Now() // the time of reclaim
	update(calmFor)
	wantCompactors(t, 0)
	for n := 0; levelZero() < 3; n++ {
		x := begin(t, e, true)
		for k := range 500 {
			must(t, x.Set(fmt.Appendf(nil, "%d %d", n, k), make([]byte, 150)))
		}
		must(t, x.Commit())
	}
	update(time.Second)
	wantCompactors(t, 2)
	for deadline := time.Now().Add(time.Minute); levelZero() > 1; {
		if time.Now().After(deadline) {
			t.Fatalf("%d tables are at level 0, want them compacted", levelZero())
		}
		update(time.Millisecond)
		time.Sleep(10 * time.Millisecond)
	}
	update(2 * calmFor)
	wantCompactors(t, 0)
	if got := get(t, e, "0 0"); got != string(make([]byte, 150)) {
		t.Errorf("the value of a key has %d bytes, want 150", len(got))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	e.Run(ctx)
	wantCompactors(t, 2)
}
