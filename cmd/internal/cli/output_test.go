package cli

import (
	"strings"
	"testing"
)

// Lines are cut at the width, in cells, however they are written.
func TestCutLines(t *testing.T) {
	for _, step := range []int{1, 7, 1000} {
		var b strings.Builder
		c := &cutLines{w: &b, width: 6}
		in := "short\nsomething long\n日本語日本語\n\n"
		for len(in) > 0 {
			n := min(step, len(in))
			if _, err := c.Write([]byte(in[:n])); err != nil {
				t.Fatal(err)
			}
			in = in[n:]
		}
		if want := "short\nsomet…\n日本…\n\n"; b.String() != want {
			t.Errorf("in steps of %d: %q, want %q", step, b.String(), want)
		}
	}
}
