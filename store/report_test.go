package store

import (
	"testing"
	"time"
)

// Of an answer that is no page only the connection is compared with pages, if it was new.
func TestMeasured(t *testing.T) {
	t.Parallel()
	fresh := Timing{Connect: 1 * time.Millisecond, FirstByte: 2 * time.Millisecond, Body: 1}
	old := Timing{FirstByte: 2 * time.Millisecond, Body: 1, Reused: true}
	for _, c := range []struct {
		name string
		r    FetchReport
		all  bool
	}{
		{"page", FetchReport{Outcome: OutcomeOK, Timing: fresh}, true},
		{"large page", FetchReport{Outcome: OutcomeTooLarge, Timing: old}, true},
		{"unchanged page", FetchReport{Outcome: OutcomeNotModified, Timing: fresh}, true},
		{"file", FetchReport{Outcome: OutcomeOK, File: true, Timing: fresh}, false},
		{"file over an old connection", FetchReport{Outcome: OutcomeOK, File: true, Timing: old},
			false},
		{"redirect", FetchReport{Outcome: OutcomeRedirect, Timing: fresh}, false},
		{"redirect over an old connection", FetchReport{Outcome: OutcomeRedirect, Timing: old}, true},
		{"missing page", FetchReport{Outcome: OutcomeHTTPError, Timing: fresh}, false},
		{"failed file", FetchReport{Outcome: OutcomeTimeout, File: true, Timing: fresh}, true},
	} {
		c.r.Bytes = 100
		got := c.r.Measured()
		all := got.Timing == c.r.Timing && got.Bytes == 100
		none := got.Timing == Timing{Connect: c.r.Timing.Connect, Reused: c.r.Timing.Reused} &&
			got.Bytes == 0
		if all != c.all || none == c.all || got.Outcome != c.r.Outcome {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
}
