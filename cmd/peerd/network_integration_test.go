//go:build integration

package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"peerd/lab/emulate/web"
	"peerd/node/admin"
)

// network starts peers that crawl w together, one at each of the multiaddrs. The first is the
// bootstrap peer of the others.
func network(t *testing.T, w *web.Web, flags []string, listen ...string) []*daemon {
	t.Helper()
	flags = append(slices.Clone(flags), "--profile", profileOf(t, w), "--log-level", "info")
	var ds []*daemon
	for _, at := range listen {
		ds = append(ds, newDaemon(t, append(slices.Clone(flags), "--listen", at)...))
	}
	meet(t, ds)
	return ds
}

// profileOf writes the profile of a network with the scope w.
func profileOf(t *testing.T, w *web.Web) (file string) {
	t.Helper()
	var hosts []string
	for _, s := range w.Sites() {
		hosts = append(hosts, fmt.Sprintf("%q", s.Host))
	}
	file = filepath.Join(t.TempDir(), "net.toml")
	rules := "name = 'e2e'\n[scope]\nmode = 'hosts'\nhosts = [" + strings.Join(hosts, ", ") +
		"]\n[politeness]\nmin_delay = '1ms'\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// meet runs peers, the first as the bootstrap peer of the others, until all know each other.
func meet(t *testing.T, ds []*daemon) {
	t.Helper()
	for i, d := range ds {
		if i > 0 {
			d.flags = append(d.flags, "--bootstrap", ds[0].status().Addrs[0])
		}
		d.run()
	}
	eventually(t, 20*time.Second, "all peers know each other", func() (bool, any) {
		for _, d := range ds {
			if s, err := d.ask(); err != nil || s.Directory < len(ds)-1 {
				return false, fmt.Sprint(s.Directory, err)
			}
		}
		return true, nil
	})
}

// merged joins the pages that all peers list, and fails the test if two peers list the same URL.
func merged(t *testing.T, ds []*daemon) map[string]admin.Link {
	t.Helper()
	all := map[string]admin.Link{}
	for _, d := range ds {
		for u, l := range d.links() {
			if _, twice := all[u]; twice {
				t.Errorf("two peers list %s", u)
			}
			all[u] = l
		}
	}
	return all
}

// pagesOf returns the URLs that have a page.
func pagesOf(links map[string]admin.Link) []string {
	var urls []string
	for u, l := range links {
		if l.Status == 200 && l.Outcome == "ok" {
			urls = append(urls, u)
		}
	}
	slices.Sort(urls)
	return urls
}

func TestNetworkCrawlsOnce(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 300, Seed: 11,
		MinDelay: 5 * time.Millisecond}, 101)
	const anywhere = "/ip4/127.0.0.1/tcp/0"
	// All peers are equally near here: what the default strategy measures is chance.
	ds := network(t, w, append(flags, "--strategy", "random"), anywhere, anywhere, anywhere)
	peerd(t, "seed", "--home", ds[1].home, w.Seed())
	awaitIdle(t, 40*time.Second, ds)

	a := w.Audit()
	if a.PagesFetched != 300 || a.PagesExpected != 300 || a.Fetches != 300 {
		t.Errorf("fetched %d of %d pages in %d fetches; missing %q",
			a.PagesFetched, a.PagesExpected,
			a.Fetches, w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit = %+v, want no violation", a)
	}
	owners := 0
	seen := map[string]int{}
	for i, d := range ds {
		s := d.status()
		if left(s) != 0 {
			t.Errorf("peer %d has work left: %+v, outbox %d", i, s.Frontier, s.OutboxURLs)
		}
		if s.SubnetsOwned > 0 {
			owners++
		}
		for line := range strings.Lines(peerd(t, "subnets", "--home", d.home)) {
			if strings.HasPrefix(line, "127.") {
				seen[strings.Fields(line)[0]]++
			}
		}
		t.Logf("peer %d: %d subnets, %d pages, %d estimations", i, s.SubnetsOwned, s.PagesFetched,
			s.Estimations.Served)
	}
	if owners < 2 {
		t.Errorf("%d of 3 peers own subnets, want more than one", owners)
	}
	for subnet, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d owners, want 1", subnet, n)
		}
	}
	if len(seen) != 8 {
		t.Errorf("the peers own %d subnets, want 8", len(seen))
	}

	before := merged(t, ds)
	if got := pagesOf(before); !slices.Equal(got, slices.Sorted(w.Pages())) {
		t.Errorf("links lists %d pages, want 300", len(got))
	}
	for i, d := range ds {
		if code := d.terminate(10 * time.Second); code != 0 {
			t.Errorf("peer %d: status after SIGTERM = %d, want 0", i, code)
		}
	}
	after := merged(t, ds)
	if !maps.EqualFunc(before, after, sameLink) {
		t.Error("links differs after the stop")
	}
}

func sameLink(a, b admin.Link) bool {
	return a.URL == b.URL && a.Status == b.Status && a.Bytes == b.Bytes &&
		a.FetchedAt.Equal(b.FetchedAt) &&
		a.Estimation == b.Estimation && slices.Equal(a.Outlinks, b.Outlinks)
}

// killings is the number of kills of the kill test.
const (
	killings  = 10
	killPause = time.Second
	// from a fetch to its commit, on a busy machine that does not stand still
	killWindow = 500 * time.Millisecond
)

// After a kill at any time, a peer that is restarted with its home continues, and only the
// fetches that were in flight at the kill are repeated.
func TestKills(t *testing.T) {
	t.Parallel()
	const gap = 50 * time.Millisecond
	still := stalls(t)
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 300, Seed: 12, MinDelay: gap,
		Delay: 40 * time.Millisecond}, 102)
	ds := network(t, w, flags, freeAddr(t, 1), freeAddr(t, 2), freeAddr(t, 3))
	seed := uint64(time.Now().UnixNano())
	t.Logf("kills follow from seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	peerd(t, "seed", "--home", ds[1].home, w.Seed())

	kills := killPeers(t, ds, rng)
	t.Logf("pages at the last kill: %d of 300", w.Audit().PagesFetched)
	awaitIdle(t, 90*time.Second, ds) // an estimator that was killed may be waited for, a minute

	a := w.Audit()
	if a.PagesFetched != 300 {
		t.Errorf("fetched %d of %d pages; missing %q",
			a.PagesFetched, a.PagesExpected, w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit = %+v, want no violation", a)
		logEarly(t, w.Log(), kills, gap)
	}
	checkRepeats(t, w.Log(), kills, still)
	listed := map[string]bool{}
	for i, d := range ds {
		s := d.status()
		if left(s) != 0 {
			t.Errorf("peer %d has work left: %+v, outbox %d", i, s.Frontier, s.OutboxURLs)
		}
		for _, u := range pagesOf(d.links()) {
			listed[u] = true
		}
		if code := d.terminate(10 * time.Second); code != 0 {
			t.Errorf("peer %d: status after SIGTERM = %d, want 0", i, code)
		}
	}
	for u := range w.Pages() {
		if !listed[u] {
			t.Errorf("no peer lists %s", u)
		}
	}
}

// freeAddr returns a multiaddr for a peer that is restarted: no connection starts from its
// address, so that its port stays free.
func freeAddr(t *testing.T, last byte) string {
	t.Helper()
	return freeAddrAt(t, netip.AddrFrom4([4]byte{127, 100, 0, last}))
}

// freeAddrAt is freeAddr for another address.
func freeAddrAt(t *testing.T, ip netip.Addr) string {
	t.Helper()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(ip, 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	return fmt.Sprintf("/ip4/%v/tcp/%d", at.Addr(), at.Port())
}

// killPeers kills and restarts a random peer about every killPause, and returns the times.
func killPeers(t *testing.T, ds []*daemon, rng *rand.Rand) []time.Time {
	t.Helper()
	var kills []time.Time
	n := killings
	if testing.Short() {
		n = 4
	}
	for range n {
		pause := time.After(killPause/2 + time.Duration(rng.Int64N(int64(killPause))))
		select {
		case <-pause:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		i := rng.IntN(len(ds))
		kills = append(kills, time.Now())
		ds[i].kill()
		ds[i].run()
		t.Logf("peer %d killed and back after %v", i,
			time.Since(kills[len(kills)-1]).Round(time.Millisecond))
	}
	return kills
}

// logEarly logs the requests to a host that came too early, with the kills.
func logEarly(t *testing.T, log []web.Hit, kills []time.Time, gap time.Duration) {
	t.Helper()
	slices.SortStableFunc(log, func(a, b web.Hit) int { return a.Start.Compare(b.Start) })
	last := map[string]web.Hit{}
	for _, h := range log {
		old, asked := last[h.Host]
		last[h.Host] = h
		if !asked || h.Start.Sub(old.End) >= gap {
			continue
		}
		i, _ := nearest(kills, h.Start)
		since := func(at time.Time) time.Duration { return at.Sub(kills[i]) }
		t.Logf("%s: status %d for %s from %v to %v after kill %d, then %s from %v on", h.Host,
			old.Status, old.Path, since(old.Start), since(old.End), i, h.Path, since(h.Start))
	}
}

// checkRepeats fails the test for a repeated request that no kill can explain: its first
// response must have been on its way, or not on disk yet. How long it takes until it is on disk
// depends on the machine, but then it was the last one of its host before the kill. As a host gets
// one request at a time, one kill explains one repetition for each host. A robots.txt is requested
// by every peer that fetches a page of its origin.
func checkRepeats(t *testing.T, log []web.Hit, kills []time.Time, still *atomic.Int64) {
	t.Helper()
	window := killWindow + 2*time.Duration(still.Load())
	slices.SortStableFunc(log, func(a, b web.Hit) int { return a.Start.Compare(b.Start) })
	log = slices.DeleteFunc(log, func(h web.Hit) bool { return h.Bare || h.Path == "/robots.txt" })
	last := map[string]int{}      // request for each page
	latest := map[string]int{}    // request to each host
	next := make([]int, len(log)) // request to the same host
	excused := map[string]int{}   // by kill and host
	repeats := 0
	for i, h := range log {
		key := h.Host + h.Path
		if l, ok := latest[h.Host]; ok {
			next[l] = i
		}
		latest[h.Host] = i
		l, again := last[key]
		last[key] = i
		if !again {
			continue
		}
		repeats++
		old := log[l]
		kill, ok := interrupted(kills, old, log[next[l]].Start, window)
		if !ok {
			t.Errorf("%s%s was fetched again without a kill, %v after its response", h.Host, h.Path,
				h.Start.Sub(old.End))
			continue
		}
		excuse := fmt.Sprint(kill, h.Host)
		if excused[excuse]++; excused[excuse] > 1 {
			t.Errorf("%s: after kill %d, %d URLs were fetched again, the last %s", h.Host, kill,
				excused[excuse], h.Path)
		}
	}
	t.Logf("%d requests, %d of them repeated, %d kills", len(log), repeats, len(kills))
}

// interrupted returns the kill that may have kept a response from the disk: it came before the next
// request to its host, or soon after its end.
func interrupted(
	kills []time.Time, old web.Hit, next time.Time, window time.Duration,
) (i int, ok bool) {
	last := old.End.Add(window)
	if next.After(last) {
		last = next
	}
	for k, at := range kills {
		if !at.Before(old.Start) && !at.After(last) {
			return k, true
		}
	}
	i, far := nearest(kills, old.End)
	return i, far <= window
}

func TestInterrupted(t *testing.T) {
	zero := time.Now()
	at := func(s int) time.Time { return zero.Add(time.Duration(s) * time.Second) }
	kills := []time.Time{at(10), at(20)}
	for _, c := range []struct {
		start, end, next int
		kill             int
		ok               bool
	}{
		{9, 11, 12, 0, true},   // in flight
		{5, 6, 12, 0, true},    // the last one of its host before the kill
		{19, 21, 22, 1, true},  // in flight
		{12, 13, 21, 1, true},  // soon after a kill, and the last one before the next
		{8, 9, 9, 0, true},     // soon before the kill, however soon the next one came
		{11, 12, 13, 0, true},  // soon after the kill: it was under way
		{13, 14, 15, 0, false}, // another request to the host came before the next kill
		{2, 3, 5, 0, false},
		{25, 26, 30, 1, false},
	} {
		k, ok := interrupted(kills, web.Hit{Start: at(c.start), End: at(c.end)}, at(c.next),
			2*time.Second)
		if ok != c.ok || ok && k != c.kill {
			t.Errorf("%+v: %d, %v", c, k, ok)
		}
	}
}

// nearest returns the kill that was nearest to the end of a response, because an interrupted
// request ends moments after it.
func nearest(kills []time.Time, end time.Time) (i int, far time.Duration) {
	far = time.Hour
	for k, at := range kills {
		if d := end.Sub(at).Abs(); d < far {
			i, far = k, d
		}
	}
	return i, far
}
