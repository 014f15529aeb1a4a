package overlaytest

import (
	"testing"
	"time"
)

// waitTimeout is the limit of Until. It only ends a test that hangs: a busy machine may stand
// still for a minute. It is shorter than the test timeout of the go command.
const waitTimeout = 5 * time.Minute

// pollInterval is the time between two evaluations of a condition.
const pollInterval = 5 * time.Millisecond

// Until waits until cond is true and fails the test after five minutes. It must be called by the
// test's own goroutine.
func Until(t testing.TB, what string, cond func() bool) {
	t.Helper()
	wait(t, waitTimeout, what, cond)
}

// Within is Until with another limit. It logs how long it took.
func Within(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	begin := time.Now()
	wait(t, limit, what, cond)
	t.Logf("%s: after %v", what, time.Since(begin).Round(time.Millisecond))
}

// wait evaluates the condition at least once, and once more after the limit.
func wait(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	begin := time.Now()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for late := false; !cond(); <-tick.C {
		if late {
			t.Fatalf("not within %v: %s", limit, what)
		}
		late = time.Since(begin) > limit
	}
}
