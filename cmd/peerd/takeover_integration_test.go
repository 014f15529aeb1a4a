//go:build integration

package main

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"peerd/lab/emulate/web"
)

// takeoverBound is the time after a kill in which a new owner must have fetched a page, with
// default settings.
const takeoverBound = 60 * time.Second

// The replicas of a killed peer take over its subnets, and fetch each page that it had not
// fetched.
func TestTakeover(t *testing.T) {
	if !*slow {
		t.Skip("takes four minutes; needs -slow")
	}
	const gap = 600 * time.Millisecond
	w, flags := serveWeb(t, web.Config{Sites: 9, Pages: 2100, Seed: 13, MinDelay: gap}, 115)
	ds := network(t, w, flags, freeAddr(t, 11), freeAddr(t, 12), freeAddr(t, 13))
	peerd(t, "seed", "--home", ds[1].home, w.Seed())
	for _, d := range ds { // new peers do not vote at first
		at := d.status().VotesFrom
		if at == nil {
			t.Fatal("the status lacks votes_from")
		}
		<-time.After(time.Until(*at))
	}
	eventually(t, 10*time.Minute, "half of all is fetched", func() (bool, any) {
		a := w.Audit()
		return 2*a.PagesFetched >= a.PagesExpected, a.PagesFetched
	})

	victim, most := 0, -1
	for i, d := range ds {
		if n := d.status().SubnetsOwned; n > most {
			victim, most = i, n
		}
	}
	owned := map[string]bool{}
	for line := range strings.Lines(peerd(t, "subnets", "--home", ds[victim].home)) {
		if strings.HasPrefix(line, "127.") {
			owned[strings.Fields(line)[0]] = true
		}
	}
	hosts := map[string]bool{}
	for _, s := range w.Sites() {
		hosts[s.Host] = owned[netip.PrefixFrom(s.Addrs[0], 24).Masked().String()]
	}
	before, kill := w.Audit().PagesFetched, time.Now()
	ds[victim].kill()
	rest := append(ds[:victim:victim], ds[victim+1:]...)
	t.Logf("peer %d with %d subnets is killed at %d pages", victim, most, before)
	eventually(t, 10*time.Minute, "all pages are fetched", func() (bool, any) {
		a := w.Audit()
		return a.PagesFetched == a.PagesExpected, a.PagesFetched
	})
	awaitIdle(t, 60*time.Second, rest)

	a := w.Audit()
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit = %+v, want no violation", a)
		logEarly(t, w.Log(), []time.Time{kill}, gap)
	}
	first := time.Hour
	for _, h := range w.Log() {
		if since := h.Start.Sub(kill); hosts[h.Host] && since > time.Second {
			first = min(first, since)
		}
	}
	t.Logf("the first fetch by a new owner was %v after the kill; %d pages in %d fetches",
		first.Round(time.Millisecond), a.PagesFetched, a.Fetches)
	if first > takeoverBound {
		t.Errorf("first fetch by a new owner = %v after the kill, want at most %v",
			first, takeoverBound)
	}
	if again := a.Fetches - a.PagesFetched; again > 3*most {
		t.Errorf("fetched %d pages again, want at most three for each subnet", again)
	}
	subnets := 0
	for _, d := range rest {
		subnets += d.status().SubnetsOwned
	}
	if subnets != 9 {
		t.Errorf("the peers own %d subnets, want 9", subnets)
	}
}
