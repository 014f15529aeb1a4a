//go:build integration

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// promtool runs the checker of Prometheus. It skips the test if there is none.
func promtool(t *testing.T, input string, args ...string) {
	t.Helper()
	program, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; it is in Debian's package prometheus")
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Stdin = strings.NewReader(input)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// The names and help texts of the metrics follow the conventions of Prometheus.
func TestPromtoolMetrics(t *testing.T) {
	promtool(t, "", "--version") // before anything is done
	var own strings.Builder
	for line := range strings.Lines(scraped(t)) {
		if strings.Contains(line, "peerd_") {
			own.WriteString(line)
		}
	}
	promtool(t, own.String(), "check", "metrics")
}

func TestPromtoolRules(t *testing.T) {
	promtool(t, "", "check", "rules", "--lint=all", "--lint-fatal", alertsFile)
	promtool(t, "", "test", "rules", "testdata/alerts_test.yml")
}

// The expressions of the dashboard are valid, as rules.
func TestPromtoolDashboard(t *testing.T) {
	rules := "groups:\n- name: dashboard\n  rules:\n"
	for title, expr := range dashboardExprs(t) {
		expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*").Replace(expr)
		rules += fmt.Sprintf("  - record: x\n    labels: {title: %q}\n    expr: %q\n", title, expr)
	}
	file := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", file)
}

func TestPromtoolConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	if err := os.WriteFile(file, []byte(scrapeConfig(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "config", "--syntax-only", file)
}
