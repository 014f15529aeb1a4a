//go:build integration

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"peerd/lab/emulate/web"
	"peerd/node/events"
)

// The event log of a peer that is killed in the middle of a crawl has all pages that sites had
// sent two seconds before, and the next run continues it.
func TestEventLogOfKilledPeer(t *testing.T) {
	t.Parallel()
	cfg := web.DefaultConfig()
	cfg.Sites, cfg.Pages, cfg.MinDelay, cfg.Delay = 8, 8000, time.Millisecond, 0
	w, flags := serveWeb(t, cfg, 118)
	d := newDaemon(t, append(flags, "--listen", "/ip4/127.0.0.1/tcp/0", "--min-delay", "1ms")...)
	peerd(t, "config", "set", "--home", d.home, "events.enabled", "true")
	stalled := stalls(t)
	d.run()
	peerd(t, "seed", "--home", d.home, w.Seed())
	eventually(t, time.Minute, "pages are fetched", func() (bool, any) {
		s, err := d.ask()
		return err == nil && s.PagesFetched > 2500, s.PagesFetched
	})
	d.kill()
	killed := time.Now()
	logged, runs := loggedPages(t, d.home)
	before := 0
	for _, h := range w.Log() {
		// Half a second until it is written, and the rest until a page that was sent is stored.
		if !h.Page || killed.Sub(h.End) < 2*time.Second+time.Duration(stalled.Load()) {
			continue
		}
		before++
		if u := w.Sites()[h.Site].URL + h.Path[1:]; !logged[u] {
			t.Errorf("%s, sent %v before the kill, is not in the log", u, killed.Sub(h.End))
		}
	}
	if before == 0 {
		t.Error("the crawl was too short: no page was sent two seconds before the kill")
	}
	t.Logf("%d pages in the log, %d were sent two seconds before the kill", len(logged), before)
	if runs != 1 {
		t.Errorf("%d runs in the log, want 1", runs)
	}
	d.run()
	d.kill()
	if again, runs := loggedPages(t, d.home); runs != 2 || len(again) < len(logged) {
		t.Errorf("after a restart the log has %d runs and %d pages", runs, len(again))
	}
}

// loggedPages returns the pages and the number of runs in the event log of a home.
func loggedPages(t *testing.T, home string) (pages map[string]bool, runs int) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "events.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	pages = map[string]bool{}
	r := events.NewReader(bytes.NewReader(text))
	for {
		e, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		switch e := e.(type) {
		case *events.Start:
			runs++
		case *events.Page:
			pages[e.URL] = true
		}
	}
	if r.Skipped > 1 {
		t.Errorf("%d lines were not read, want at most the last one", r.Skipped)
	}
	return pages, runs
}
