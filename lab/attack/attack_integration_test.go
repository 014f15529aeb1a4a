//go:build integration

package attack

import (
	"testing"
	"time"
)

// The attacks that take seconds have no effect; all of them are run by the command attack.
func TestAttacks(t *testing.T) {
	t.Parallel()
	for _, a := range All() {
		if a.run == nil {
			t.Fatalf("attack %s has no function", a.Name)
		}
		if a.Slow {
			continue
		}
		t.Run(a.Name, func(t *testing.T) {
			r, err := a.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.3g %s, limit %.3g, %v s: %s", r.Effect, r.Unit, r.Limit, r.Seconds, r.Detail)
			if r.Verdict != Held {
				t.Errorf("the verdict is %s, want %s; it is bound by: %s", r.Verdict, Held, r.By)
			}
		})
	}
}

// A network crawls while it is attacked in every way. The attacks on subnets come last, when these
// are older than the 45 s in which they can be contested.
func TestNetwork(t *testing.T) {
	t.Parallel()
	r, err := Network(t.Context(), NetworkOptions{Honest: 3, Hostile: 3, Sites: 4, Pages: 160,
		Calm: 45 * time.Second, For: 20 * time.Second, Seed: 1, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Steps) != len((&campaign{}).steps()) {
		t.Errorf("%d attacks were carried out: %q", len(r.Steps), r.Steps)
	}
	if r.Missing > 0 || len(r.Taken) > 0 {
		t.Errorf("%d pages of honest owners were not fetched, and subnets %v were lost", r.Missing,
			r.Taken)
	}
	if r.PolitenessViolations > 0 || r.RobotsViolations > 0 {
		t.Errorf("%d requests were too early, %d forbidden", r.PolitenessViolations,
			r.RobotsViolations)
	}
	if r.HonestDoubted > 0 {
		t.Errorf("honest peers were taken for liars %d times", r.HonestDoubted)
	}
}
