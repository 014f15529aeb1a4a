//go:build integration

package attack

import "testing"

// The attacks that take seconds have no effect; all of them are run by the command attack.
func TestAttacks(t *testing.T) {
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
