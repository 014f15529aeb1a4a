package rapidtest_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
)

// TestCases is run by TestDefault in a process of its own, too.
func TestCases(t *testing.T) {
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		rapid.Bool().Draw(t, "any")
		n++
	})
	t.Logf("drew %d cases", n)
}

// Without a wish there are 30 cases. The variable and the flag decide if given, the flag first.
func TestDefault(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ env, flag, want string }{
		{"", "", "30"}, {"70", "", "70"}, {"", "-rapid.checks=8", "8"}, {"70", "-rapid.checks=8", "8"},
	} {
		args := []string{"-test.run=^TestCases$", "-test.v"}
		if c.flag != "" {
			args = append(args, c.flag)
		}
		cmd := exec.CommandContext(t.Context(), exe, args...)
		cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
			return strings.HasPrefix(v, "RAPID_CHECKS=")
		})
		if c.env != "" {
			cmd.Env = append(cmd.Env, "RAPID_CHECKS="+c.env)
		}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "drew "+c.want+" cases") {
			t.Errorf("RAPID_CHECKS=%s %s: %v, want %s cases:\n%s", c.env, c.flag, err, c.want, out)
		}
	}
}
