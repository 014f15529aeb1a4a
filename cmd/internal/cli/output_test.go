package cli

import (
	"strings"
	"testing"
)

// A long text is cut between characters, also if it is not UTF-8.
func TestClip(t *testing.T) {
	x := strings.Repeat("x", 198)
	for in, want := range map[string]string{
		"": `""`, "a\tb": "a\uFFFDb", x + "yz": x + "yz",
		x + "日": x + "...", x + "yé": x + "y...",
		x + "éz": x + "é...", strings.Repeat("\x80", 201): strings.Repeat("\uFFFD", 196) + "...",
	} {
		if got := Clip(in); got != want {
			t.Errorf("Clip(%q) = %q, want %q", in, got, want)
		}
	}
}

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
