//go:build integration

package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// shortRun returns the options of a run of three peers that exercises everything from the build
// to the report.
func shortRun(t *testing.T) Options {
	t.Helper()
	settings := t.TempDir() + "/quick.toml"
	quick := "[overlay]\nbatch_max_age = '300ms'\nunclaimed_age = '300ms'\nunclaimed_urls = 8\n" +
		"settle = '300ms'\n"
	if err := os.WriteFile(settings, []byte(quick), 0o600); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Peers: 3, Sites: 4, Pages: 60, Gap: 100 * time.Millisecond, Length: 8 * time.Second,
		Down: 2 * time.Second, Cut: time.Minute, Settle: 2 * time.Minute, Scenario: "kills",
		Seed: 5, Config: settings, LogLevel: "info", JSON: true, Self: []string{self, "inside"},
	}
}

func TestChaosEndToEnd(t *testing.T) {
	var out, progress bytes.Buffer
	err := Run(t.Context(), shortRun(t), &out, &progress)
	var r Report
	if jsonErr := json.Unmarshal(out.Bytes(), &r); jsonErr != nil {
		t.Fatalf("Run() = %v and printed %q: %v\n%s", err, out.String(), jsonErr, progress.String())
	}
	if err != nil || !r.ok() {
		t.Logf("%s\n%s", progress.String(), r.table())
	}
	// Only longer runs can check the bounds; this one checks that there are figures.
	if r.PagesExpected != 60 || r.PagesFetched < 30 || r.Foreign != 0 {
		t.Errorf("%d of %d pages, %d foreign requests; want 30 or more of 60, 0\n%s",
			r.PagesFetched, r.PagesExpected, r.Foreign, progress.String())
	}
	if r.Faults[kill] == 0 || len(r.Takeovers) != r.Faults[kill] {
		t.Errorf("%d kills and %d takeovers, want the same number, more than 0", r.Faults[kill],
			len(r.Takeovers))
	}
	if r.Politeness.Violations > 0 || len(r.Crashes) > 0 {
		t.Errorf("%d politeness violations, crashes %q; want none", r.Politeness.Violations,
			r.Crashes)
	}
}

// seeing is a writer that calls found when the written text contains text.
type seeing struct {
	written bytes.Buffer
	text    string
	found   func()
}

func (s *seeing) Write(p []byte) (int, error) {
	n, err := s.written.Write(p)
	if strings.Contains(s.written.String(), s.text) {
		s.found()
	}
	return n, err
}

// An interrupted run reports the figures so far and leaves no process running.
func TestInterruptedRunReports(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // building may be slow
	defer cancel()
	o := shortRun(t)
	o.Length, o.JSON = 10*time.Minute, false
	var out bytes.Buffer
	progress := &seeing{text: " pages, ", found: cancel}
	err := Run(ctx, o, &out, progress)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Run() = %v, want %v", err, context.Canceled)
	}
	if !strings.HasPrefix(out.String(), "kills, seed 5: 3 peers, 4 sites") ||
		!strings.Contains(out.String(), "interrupted: these are the figures so far") {
		t.Errorf("printed %q, want a report of the figures so far\n%s", out.String(),
			progress.written.String())
	}
}
