package record

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/internal/clock"
)

// Reads begin at increasing times within a quarter of the plan, whenever the caller looks.
func TestRereads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Rereads
		begin := time.Unix(1e9, 0)
		if r.Due(begin.AddDate(9, 0, 0)) || !r.Rearm(begin) {
			t.Fatal("the zero value plans something, or cannot be armed")
		}
		if r.Rearm(begin.Add(RearmAfter)) {
			t.Fatal("armed again at once")
		}
		now := begin
		for n, after := range readAfter {
			if early := begin.Add(after - 1); early.After(now) && r.Due(early) {
				t.Fatalf("read %d is due early", n)
			}
			if now = clock.Later(now, begin.Add(after+after/4)); !r.Due(now) {
				t.Fatalf("read %d is not due at %v", n, now.Sub(begin))
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "s")) * time.Second)
			if got := r.Begin(); got != n {
				t.Fatalf("read %d counts as %d", n, got)
			}
		}
		if r.Planned() || r.Due(now.AddDate(9, 0, 0)) {
			t.Fatal("a read too many")
		}
	})
}
