//go:build integration

package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// A network is founded with one peer, a second one joins by the line that the first one prints,
// and both crawl; a third one without an invitation does not get in.
func TestFoundAndJoin(t *testing.T) {
	t.Parallel()
	const gap = 100 * time.Millisecond
	w, flags := serveWeb(t, web.Config{Sites: 12, Pages: 60, Seed: 5, MinDelay: gap}, 171)
	flags = append(flags, "--strategy", "hash")
	dir := t.TempDir()
	ds := make([]*daemon, 2)
	for i := range ds {
		ds[i] = &daemon{t: t, home: filepath.Join(dir, string(rune('a'+i))),
			flags: append(slices.Clone(flags), "--listen", "/ip4/127.0.0.1/tcp/0")}
	}
	founder, joiner := ds[0], ds[1]
	peerd(t, "network", "new", "--home", founder.home, "--scope", "any", "--min-delay", "0s",
		"gardens")
	founder.run()
	line := strings.TrimSpace(peerd(t, "invite", "--home", founder.home))
	out := peerd(t, "join", "--home", joiner.home, line)
	if !strings.Contains(out, "peerd run --home "+joiner.home) {
		t.Errorf("join prints %q, want the next command", out)
	}
	_, stderr, code := tryPeerd(t, "join", "--home", filepath.Join(dir, "c"), line)
	if code != 1 || !strings.Contains(stderr, "has been used up") {
		t.Errorf("second use of the line: status %d, %q", code, stderr)
	}
	joiner.run()
	eventually(t, time.Minute, "both know each other", func() (bool, any) {
		a, errA := founder.ask()
		b, errB := joiner.ask()
		return errA == nil && errB == nil && a.Directory == 1 && b.Directory == 1, nil
	})
	peerd(t, "seed", "--home", founder.home, w.Seed())
	eventually(t, 2*time.Minute, "all pages are fetched", func() (bool, any) {
		a := w.Audit()
		return a.PagesFetched == a.PagesExpected, a.PagesFetched
	})
	awaitIdle(t, time.Minute, ds)
	for i, d := range ds {
		if s := d.status(); s.PagesFetched == 0 {
			t.Errorf("peer %d has fetched no page", i)
		}
	}
}
