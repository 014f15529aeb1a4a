package overlaytest

import (
	"testing"
	"time"
)

// patience is what a condition has that says nothing about time: much more than it
// takes on a busy machine, and less than the go command allows a package.
const patience = time.Minute

// pace is between two looks at a condition.
const pace = 5 * time.Millisecond

// Until waits for a condition, a minute at most, and ends the test if it does not
// come. To be called by the test's own goroutine.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	wait(t, patience, what, cond)
}

// Within is Until for a condition whose time matters: it has to hold before the
// limit, and the log says after how long it did.
func Within(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	begin := time.Now()
	wait(t, limit, what, cond)
	t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
}

// wait looks at the condition once at least, and once more after the limit.
func wait(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(pace)
	defer tick.Stop()
	for late := false; !cond(); <-tick.C {
		if late {
			t.Fatalf("not within %v: %s", limit, what)
		}
		late = time.Since(begin) > limit
	}
}
