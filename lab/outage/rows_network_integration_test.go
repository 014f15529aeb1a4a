//go:build integration

package outage

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"peerd/lab/emulate/faulty"
	"peerd/lab/emulate/netns"
)

// robotsChange is a robots.txt that changes to "Disallow: /", at the only site of a row.
type robotsChange struct {
	maxAge  string // of the file, in seconds; "": not sent
	changed atomic.Pointer[time.Time]
	read    atomic.Pointer[time.Time] // when the changed file was first sent
}

func (c *robotsChange) sites() []*faulty.Site {
	all := sites(1, 10, 0)
	all[0].Robots = func(rw http.ResponseWriter, _ *http.Request) {
		if c.maxAge != "" {
			rw.Header().Set("Cache-Control", "max-age="+c.maxAge)
		}
		rule := "Allow"
		if c.changed.Load() != nil {
			rule = "Disallow"
			now := time.Now()
			c.read.CompareAndSwap(nil, &now)
		}
		_, _ = io.WriteString(rw, "User-agent: *\n"+rule+": /\n") // the log tells
	}
	return all
}

func (c *robotsChange) change(*world) {
	now := time.Now()
	c.changed.Store(&now)
}

// await waits until the changed file was requested.
func (c *robotsChange) await(w *world) []string {
	w.wait(patience, func() bool { return c.read.Load() != nil })
	return nil
}

// obeyed checks that the changed file was requested, with -long within a time, and no page after
// that. Without the reason for its request it would be requested a day later.
func (c *robotsChange) obeyed(within time.Duration) func(w *world) []string {
	return func(w *world) []string {
		read := c.read.Load()
		if read == nil {
			return []string{"the changed robots.txt was not requested"}
		}
		took := read.Sub(*c.changed.Load()).Round(time.Millisecond)
		before := w.pagesAfter(*c.changed.Load())
		after := w.pagesAfter(*read)
		w.t.Logf("robots.txt was requested %v after it changed; %d pages before that, %d after it",
			took, before-after, after)
		faults := atMost(after, 0, "requests for pages after the change was read")
		if *long && took > within+w.slack() {
			faults = append(faults, fmt.Sprintf("the changed robots.txt was requested after %v,"+
				" want at most %v", took, within))
		}
		return faults
	}
}

// robotsRows are about a robots.txt that forbids everything while pages are revisited.
func robotsRows() []row {
	const revisits = "[revisit]\nenabled = true\nmin_interval = '2s'\ninitial_interval = '2s'\n" +
		"max_interval = '2s'\n"
	refreshed, aged := &robotsChange{}, &robotsChange{maxAge: "60"}
	return []row{
		{
			name: "robots-refresh", command: run, sites: refreshed.sites(), profile: revisits,
			after: 10, fail: func(w *world) {
				refreshed.change(w)
				if _, err := w.peers[0].ask("robots", "--refresh", "h0.test"); err != nil {
					w.fault("%v", err)
				}
			},
			lasts: 15 * time.Second, during: refreshed.await,
			// The next visit is due within two seconds, with jitter.
			want: want{repeats: 1000, check: refreshed.obeyed(4 * time.Second)},
		},
		{
			name: "robots-max-age", command: run, sites: aged.sites(), profile: revisits,
			after: 10, fail: aged.change, lasts: 75 * time.Second, full: 8 * time.Minute,
			during: aged.await, want: want{repeats: 10_000, check: aged.obeyed(64 * time.Second)},
		},
	}
}

// partitionRows cut peers and sites in halves.
func partitionRows() []row {
	return []row{
		{
			name: "halves-three-peers", command: run, peers: 3, sites: size(6, 30, 0),
			gap: 200 * time.Millisecond, after: 40, fail: halves(0), lasts: 20 * time.Second,
			full: 3 * time.Minute, want: want{repeats: 60},
		},
		{
			name: "halves-eight-peers", long: true, command: run, peers: 8,
			sites: sites(20, 50, 0), gap: time.Second,
			setup: func(w *world) { w.setFaults(netns.Loss(0.01)) },
			after: 200, fail: halves(0.01), lasts: 3 * time.Minute, settle: 10 * time.Minute,
			want: want{repeats: 5},
		},
		{
			name: "owner-cut-off", long: true, command: run, peers: 3, sites: sites(3, 100, 0),
			gap: time.Second, after: 30, lasts: 10 * time.Minute,
			fail: func(w *world) { w.setFaults(netns.CutSites(w.owner("h0.test"), one(addr(0)))) },
			want: want{repeats: 5},
		},
	}
}

// halves cuts even peers and sites from odd ones, with a loss of packets everywhere.
func halves(loss float64) func(w *world) {
	return func(w *world) {
		var parts [2][]netip.Prefix
		for i := range w.row.sites {
			parts[i%2] = append(parts[i%2], one(addr(i)))
		}
		var faults []netns.Fault
		for i := range w.peers {
			faults = append(faults, netns.CutSites(i, parts[1-i%2]...))
			for k := range w.peers {
				if i%2 != k%2 {
					faults = append(faults, netns.CutPeers(i, k))
				}
			}
		}
		w.setFaults(append(faults, netns.Loss(loss))...)
	}
}

// owner returns the peer that sent the last request to a host.
func (w *world) owner(host string) int {
	owner := 0
	for _, h := range w.web.Log() {
		for _, p := range w.peers {
			if h.Host == host && h.Peer == netns.Peer(p.i) {
				owner = p.i
			}
		}
	}
	return owner
}

// sizeRows have many hosts.
func sizeRows() []row {
	const hosts, settle = 10_000, 20 * time.Minute
	few := https(faulty.CertValid, sites(hosts, 5, 0))
	some := https(faulty.CertValid, sites(hosts, 5, 0))
	for i := 0; i < hosts; i += 10 {
		some[i].Pages = 50
	}
	return []row{
		{
			name: "crawl-10000-hosts", long: true, command: crawl, gap: time.Second, sites: some,
			settle: settle, want: want{check: func(w *world) []string {
				return append(fewConnections(w), cost(w)...)
			}},
		},
		{
			name: "run-10000-hosts", long: true, command: run, gap: time.Second, sites: few,
			settle: settle, want: want{check: func(w *world) []string {
				return slices.Concat(fewConnections(w), cost(w), takeUp(w), queryRate(w))
			}},
		},
		{
			name: "run-10000-names", long: true, command: run, sites: sites(hosts, 2, 0),
			settle: settle, want: want{check: func(w *world) []string {
				return slices.Concat(cost(w), takeUp(w), queryRate(w))
			}},
		},
	}
}

// cost checks the memory of the first peer, and logs the processor time of all.
func cost(w *world) []string {
	var used time.Duration
	for _, p := range w.peers {
		used += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}
	resident := int(w.memory.Load() >> 20)
	w.t.Logf("%v of processor time, %v per page, %d MiB resident", used.Round(time.Second),
		(used / time.Duration(w.web.Pages())).Round(time.Microsecond), resident)
	return atMost(resident, 192+64, "MiB were resident")
}

// takeUp checks that at least 200 hosts get their first request per second.
func takeUp(w *world) []string {
	seen := map[string]bool{}
	var first, last time.Time
	for _, h := range w.web.Log() {
		if seen[h.Host] {
			continue
		}
		seen[h.Host] = true
		if first.IsZero() {
			first = h.At
		}
		last = h.At
	}
	rate := float64(len(seen)) / last.Sub(first).Seconds()
	w.t.Logf("%d hosts in %v, %.0f per second", len(seen), last.Sub(first), rate)
	if rate < 200 {
		return []string{fmt.Sprintf("%.0f new hosts per second, want at least 200", rate)}
	}
	return nil
}

// queryRate bounds the DNS queries in each second.
func queryRate(w *world) []string {
	perSecond := map[int64]int{}
	most := 0
	for _, q := range w.names.Queries() {
		perSecond[q.At.Unix()]++
		most = max(most, perSecond[q.At.Unix()])
	}
	w.t.Logf("%d queries, at most %d in a second", len(w.names.Queries()), most)
	return atMost(most, 1000, "DNS queries in a second")
}
