//go:build integration

package soak

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A real peer in a child process crawls the endless web; Watch writes CSV and SVG.
func TestSoakShort(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	crawled := regexp.MustCompile(`[1-9]\d* pages in total`)
	// A busy machine may need more than the first length until a page is fetched.
	for _, length := range []time.Duration{4 * time.Second, 40 * time.Second, 4 * time.Minute} {
		out.Reset()
		o := WatchOptions{Out: dir, Length: length, Every: 200 * time.Millisecond, Sites: 3,
			Self: self(t)}
		if err := Watch(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		if crawled.MatchString(out.String()) {
			break
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "soak.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if rows := strings.Count(string(text), "\n"); rows < 8 {
		t.Errorf("soak.csv has %d rows, want at least 8:\n%s", rows, text)
	}
	if !crawled.MatchString(out.String()) {
		t.Errorf("peer fetched no pages: %s", out.String())
	}
	left, err := filepath.Glob(filepath.Join(dir, "home-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("home directories left: %v, err = %v", left, err)
	}
}

// Queue prints a line for each step and removes the store.
func TestFrontierFigures(t *testing.T) {
	var out bytes.Buffer
	o := QueueOptions{Dir: t.TempDir(), URLs: 2000, Hosts: 50, Work: 300 * time.Millisecond,
		Self: self(t)}
	if err := Queue(t.Context(), o, &out); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 2 ||
		!strings.HasPrefix(lines[1], "reopen: ") {
		t.Errorf("got output\n%s\nwant two lines, the second one for reopen", out.String())
	}
	left, err := os.ReadDir(o.Dir)
	if err != nil || len(left) > 0 {
		t.Errorf("stores left: %v, err = %v", left, err)
	}
}

// All URLs are queued, the queue survives its process, and work shortens it.
func TestFillQueuesAll(t *testing.T) {
	dir := t.TempDir()
	figures := func(step string, work time.Duration) queueFigures {
		t.Helper()
		f, err := queueChild(t.Context(), step, QueueOptions{URLs: 777, Hosts: 30, Work: work,
			Self: self(t)}, dir)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if f := figures("fill", 0); f.Pending != 777 {
		t.Errorf("fill: %d URLs queued, want 777", f.Pending)
	}
	if f := figures("reopen", time.Minute); f.Pending >= 777 || f.PerWork <= 0 {
		t.Errorf("reopen: %d URLs queued after work at %.0f jobs/s, want fewer than 777", f.Pending,
			f.PerWork)
	}
}

// self returns the command that runs this test binary as a child process.
func self(t *testing.T) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return []string{exe, "child"}
}
