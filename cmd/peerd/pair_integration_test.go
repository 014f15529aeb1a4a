//go:build integration

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// pairBound is the time after a kill in which the other one of two peers must have fetched a
// page of the killed one's subnets.
const pairBound = 2 * time.Minute

// When one of two peers is killed, the other one takes over.
func TestPairTakesOver(t *testing.T) {
	t.Parallel()
	const gap = 600 * time.Millisecond
	still := stalls(t)
	w, flags := serveWeb(t, web.Config{Sites: 4, Pages: 160, Seed: 21, MinDelay: gap}, 135)
	ds := network(t, w, flags, freeAddr(t, 31), freeAddr(t, 32))
	peerd(t, "seed", "--home", ds[0].home, w.Seed())
	owned := func(d *daemon) map[string]bool {
		all := map[string]bool{}
		for line := range strings.Lines(peerd(t, "subnets", "--home", d.home)) {
			if strings.HasPrefix(line, "127.") {
				all[strings.Fields(line)[0]] = true
			}
		}
		return all
	}
	eventually(t, 5*time.Minute, "a third is fetched", func() (bool, any) {
		a := w.Audit()
		return 3*a.PagesFetched >= a.PagesExpected, a.PagesFetched
	})
	victim := 0
	if len(owned(ds[1])) > len(owned(ds[0])) {
		victim = 1
	}
	lost := owned(ds[victim])
	if len(lost) == 0 {
		t.Fatal("neither peer owns a subnet")
	}
	kill := time.Now()
	ds[victim].kill()
	t.Logf("peer %d with %d subnets is killed at %d pages", victim, len(lost),
		w.Audit().PagesFetched)
	eventually(t, 8*time.Minute, "all pages are fetched", func() (bool, any) {
		a := w.Audit()
		return a.PagesFetched == a.PagesExpected, a.PagesFetched
	})
	hosts := map[string]bool{}
	for _, s := range w.Sites() {
		hosts[s.Host] = lost[netip.PrefixFrom(s.Addrs[0], 24).Masked().String()]
	}
	first := time.Hour
	for _, h := range w.Log() {
		if since := h.Start.Sub(kill); hosts[h.Host] && since > time.Second {
			first = min(first, since)
		}
	}
	a := w.Audit()
	t.Logf("the first fetch by the other peer was %v after the kill; %d pages in %d fetches",
		first.Round(time.Millisecond), a.PagesFetched, a.Fetches)
	if first > pairBound+2*time.Duration(still.Load()) {
		t.Errorf("first fetch by the other peer = %v after the kill, want at most %v", first,
			pairBound)
	}
	if a.Politeness.Violations+a.RobotsViolations > 0 {
		t.Errorf("audit = %+v, want no violation", a)
	}
}
