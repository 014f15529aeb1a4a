package main

import (
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"peerd/node/emulate/web"
)

// goneBound is how long after a kill the new owner must have fetched, at default
// times.
const goneBound = 60 * time.Second

// A peer that is killed for good leaves nothing undone: its shadows take over what
// it owned, and fetch each page that it had not.
func TestSubnetsOfADeadPeerAreTakenOver(t *testing.T) {
	if os.Getenv("PEERD_SLOW") == "" {
		t.Skip("takes four minutes; set PEERD_SLOW=1")
	}
	const gap = 600 * time.Millisecond
	w, flags := serveWeb(t, web.Config{Sites: 9, Pages: 2100, Seed: 13, MinDelay: gap}, 115)
	ds := network(t, w, flags, freeAddr(t, 11), freeAddr(t, 12), freeAddr(t, 13))
	peerd(t, "seed", "--home", ds[1].home, w.Seed())
	for _, d := range ds { // new peers give no votes at first
		at := d.status().VotesFrom
		if at == nil {
			t.Fatal("a peer does not say when it votes")
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
	awaitQuiet(t, 60*time.Second, rest)

	a := w.Audit()
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit: %+v", a)
		tellEarly(t, w.Log(), []time.Time{kill}, gap)
	}
	first := time.Hour
	for _, h := range w.Log() {
		if since := h.Start.Sub(kill); hosts[h.Host] && since > time.Second {
			first = min(first, since)
		}
	}
	t.Logf("the first fetch by a new owner was %v after the kill; %d pages in %d fetches", first.Round(time.Millisecond), a.PagesFetched, a.Fetches)
	if first > goneBound {
		t.Errorf("the first fetch by a new owner was %v after the kill", first)
	}
	if again := a.Fetches - a.PagesFetched; again > 3*most {
		t.Errorf("%d pages were fetched again", again)
	}
	subnets := 0
	for _, d := range rest {
		subnets += d.status().SubnetsOwned
	}
	if subnets != 9 {
		t.Errorf("%d subnets are owned, want 9", subnets)
	}
}
