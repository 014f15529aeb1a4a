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

	"peerd/node/admin"
	"peerd/node/emulate/web"
)

// network starts peers that crawl w together, one at each of the multiaddrs;
// the first is the bootstrap of the others.
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

// profileOf writes the profile of a network whose scope is w.
func profileOf(t *testing.T, w *web.Web) (file string) {
	t.Helper()
	var hosts []string
	for _, s := range w.Sites() {
		hosts = append(hosts, fmt.Sprintf("%q", s.Host))
	}
	file = filepath.Join(t.TempDir(), "net.toml")
	rules := "name = 'e2e'\n[scope]\nmode = 'hosts'\nhosts = [" + strings.Join(hosts, ", ") + "]\n[politeness]\nmin_delay = '1ms'\n"
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// meet runs peers, the first as the bootstrap of the others, until all know all.
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

// merged puts together what all peers list, and fails the test for a URL that
// two of them list.
func merged(t *testing.T, ds []*daemon) map[string]admin.Link {
	t.Helper()
	all := map[string]admin.Link{}
	for _, d := range ds {
		for u, l := range d.links() {
			if _, twice := all[u]; twice {
				t.Errorf("%s is listed by two peers", u)
			}
			all[u] = l
		}
	}
	return all
}

// pagesOf are the URLs that were answered with a page.
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

func TestThreePeersCrawlEverythingOnce(t *testing.T) {
	t.Parallel()
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 300, Seed: 11, MinDelay: 5 * time.Millisecond}, 101)
	const anywhere = "/ip4/127.0.0.1/tcp/0"
	ds := network(t, w, flags, anywhere, anywhere, anywhere)
	peerd(t, "seed", "--home", ds[1].home, w.Seed())
	awaitQuiet(t, 40*time.Second, ds)

	a := w.Audit()
	if a.PagesFetched != 300 || a.PagesExpected != 300 || a.Fetches != 300 {
		t.Errorf("%d of %d pages in %d fetches; missing %q", a.PagesFetched, a.PagesExpected, a.Fetches, w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit: %+v", a)
	}
	owners := 0
	seen := map[string]int{}
	for i, d := range ds {
		s := d.status()
		if left(s) != 0 {
			t.Errorf("peer %d says that work is left: %+v, outbox %d", i, s.Frontier, s.OutboxURLs)
		}
		if s.SubnetsOwned > 0 {
			owners++
		}
		for line := range strings.Lines(peerd(t, "subnets", "--home", d.home)) {
			if strings.HasPrefix(line, "127.") {
				seen[strings.Fields(line)[0]]++
			}
		}
		t.Logf("peer %d: %d subnets, %d pages, %d estimations", i, s.SubnetsOwned, s.PagesFetched, s.Estimations.Served)
	}
	if owners < 2 {
		t.Errorf("%d of 3 peers own subnets", owners)
	}
	for subnet, n := range seen {
		if n != 1 {
			t.Errorf("%s has %d owners", subnet, n)
		}
	}
	if len(seen) != 8 {
		t.Errorf("%d subnets are owned, want 8", len(seen))
	}

	before := merged(t, ds)
	if got := pagesOf(before); !slices.Equal(got, slices.Sorted(w.Pages())) {
		t.Errorf("links lists %d pages, want the 300 there are", len(got))
	}
	for i, d := range ds {
		if code := d.terminate(10 * time.Second); code != 0 {
			t.Errorf("peer %d: status %d after SIGTERM", i, code)
		}
	}
	after := merged(t, ds)
	if !maps.EqualFunc(before, after, sameLink) {
		t.Error("links tells something else after the stop")
	}
}

func sameLink(a, b admin.Link) bool {
	return a.URL == b.URL && a.Status == b.Status && a.Bytes == b.Bytes && a.FetchedAt.Equal(b.FetchedAt) &&
		a.Estimation == b.Estimation && slices.Equal(a.Outlinks, b.Outlinks)
}

// killings is what the kill test does.
const (
	killings   = 10
	killPause  = time.Second
	killWindow = 500 * time.Millisecond // from a fetch to its commit, on a busy machine that does not stand still
)

// Whatever process dies whenever: a peer that is started again with its home
// goes on, and only the fetches that were under way at the dead one come again.
func TestNothingIsLostWhenPeersAreKilled(t *testing.T) {
	t.Parallel()
	const gap = 50 * time.Millisecond
	still := stalls(t)
	w, flags := serveWeb(t, web.Config{Sites: 8, Pages: 300, Seed: 12, MinDelay: gap, Delay: 40 * time.Millisecond}, 102)
	ds := network(t, w, flags, freeAddr(t, 1), freeAddr(t, 2), freeAddr(t, 3))
	seed := uint64(time.Now().UnixNano())
	t.Logf("kills follow from seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	peerd(t, "seed", "--home", ds[1].home, w.Seed())

	kills := killPeers(t, ds, rng)
	t.Logf("pages at the last kill: %d of 300", w.Audit().PagesFetched)
	awaitQuiet(t, 90*time.Second, ds) // an estimator that was killed may be waited for, a minute

	a := w.Audit()
	if a.PagesFetched != 300 {
		t.Errorf("%d of %d pages; missing %q", a.PagesFetched, a.PagesExpected, w.Missing(5))
	}
	if a.Politeness.Violations+a.RobotsViolations+a.Lost > 0 {
		t.Errorf("audit: %+v", a)
		tellEarly(t, w.Log(), kills, gap)
	}
	checkRepeats(t, w.Log(), kills, still)
	listed := map[string]bool{}
	for i, d := range ds {
		s := d.status()
		if left(s) != 0 {
			t.Errorf("peer %d says that work is left: %+v, outbox %d", i, s.Frontier, s.OutboxURLs)
		}
		for _, u := range pagesOf(d.links()) {
			listed[u] = true
		}
		if code := d.terminate(10 * time.Second); code != 0 {
			t.Errorf("peer %d: status %d after SIGTERM", i, code)
		}
	}
	for u := range w.Pages() {
		if !listed[u] {
			t.Errorf("no peer lists %s", u)
		}
	}
}

// freeAddr returns a multiaddr that a peer can come back to: at an address that
// no connection goes out from, so that its port stays free.
func freeAddr(t *testing.T, last byte) string {
	t.Helper()
	ln, err := net.Listen("tcp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 100, 0, last}), 0).String())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	at := ln.Addr().(*net.TCPAddr).AddrPort()
	return fmt.Sprintf("/ip4/%v/tcp/%d", at.Addr(), at.Port())
}

// killPeers kills and restarts a random peer about every killPause, and returns
// when it did.
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
		t.Logf("peer %d killed and back after %v", i, time.Since(kills[len(kills)-1]).Round(time.Millisecond))
	}
	return kills
}

// tellEarly logs the requests that came too early at a host, by the kills.
func tellEarly(t *testing.T, log []web.Hit, kills []time.Time, gap time.Duration) {
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

// checkRepeats fails the test for a request that came again although no kill
// can have hit it: its first answer must have been on its way, or not yet on
// the disk. And as a host is asked for one URL at a time, one kill excuses one
// repetition a host.
func checkRepeats(t *testing.T, log []web.Hit, kills []time.Time, still *atomic.Int64) {
	t.Helper()
	window := killWindow + 2*time.Duration(still.Load())
	slices.SortStableFunc(log, func(a, b web.Hit) int { return a.Start.Compare(b.Start) })
	last := map[string]web.Hit{}
	excused := map[string]int{} // by kill and host
	repeats := 0
	for _, h := range log {
		key := h.Host + h.Path
		old, again := last[key]
		last[key] = h
		if !again {
			continue
		}
		repeats++
		kill, far := nearest(kills, old.End)
		if far > window {
			t.Errorf("%s%s was fetched again for no reason, %v after its answer", h.Host, h.Path, h.Start.Sub(old.End))
			continue
		}
		excuse := fmt.Sprint(kill, h.Host)
		if excused[excuse]++; excused[excuse] > 1 {
			t.Errorf("%s: kill %d made %d URLs be fetched again, the last %s", h.Host, kill, excused[excuse], h.Path)
		}
	}
	t.Logf("%d requests, %d of them repeated, %d kills", len(log), repeats, len(kills))
}

// nearest returns the kill that was nearest to the end of an answer: a request
// that is cut off ends moments after it.
func nearest(kills []time.Time, end time.Time) (i int, far time.Duration) {
	far = time.Hour
	for k, at := range kills {
		if d := end.Sub(at).Abs(); d < far {
			i, far = k, d
		}
	}
	return i, far
}
