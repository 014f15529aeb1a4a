//go:build integration

package outage

import (
	"time"

	"peerd/lab/emulate/faulty"
	"peerd/lab/emulate/netns"
)

// soon is the longest time from the return of the network to the first request.
const soon = 10 * time.Second

// known has the rows that are not met yet, by name, and why.
var known = map[string]string{}

// rows returns the table. Rows share no state.
func rows() (all []row) {
	for _, some := range [][]row{
		networkRows(), siteRows(), nameRows(), addressRows(), tlsRows(), bodyRows(), robotsRows(),
		partitionRows(), sizeRows(), hostileRows(),
	} {
		all = append(all, some...)
	}
	for i := range all {
		all[i].known = known[all[i].name]
	}
	return all
}

// size is 1,000 pages with -long, and fewer without.
func size(n, pages, fan int) []*faulty.Site {
	if *long {
		return sites(5, 200, fan)
	}
	return sites(n, pages, fan)
}

// impatient is for outages of outageTime, in which two requests fail at each host, so that a peer
// that does not notice the outage gives its hosts up.
const (
	impatient  = "timeout = '4s'\npatience = '12s'\n"
	outageTime = 20 * time.Second
)

// networkRows are outages of the peer's own network.
func networkRows() []row {
	lost := []string{"lost the network", "regained the network"}
	cut := func(w *world) { w.setFaults(netns.CutPeer(0)) }
	down := func(w *world) { w.must(w.net.SetLink(0, false)) }
	brief := []string{"--patience", "12s"} // crawl does not use the setting
	return []row{
		{
			name: "crawl-cut", command: crawl, sites: size(5, 40, 0), gap: 100 * time.Millisecond,
			after: 40, fail: cut, lasts: outageTime, full: 10 * time.Minute,
			config: impatient, args: brief, during: noticed,
			want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "crawl-one-known-url", command: crawl, sites: sites(10, 20, 1), after: 20,
			fail: cut, lasts: outageTime, full: 2 * time.Minute, config: impatient, args: brief,
			during: noticed, want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "crawl-cable", command: crawl, sites: size(5, 40, 0), gap: 100 * time.Millisecond,
			after: 40, fail: func(w *world) { w.must(w.net.SetCable(0, false)) },
			lasts: outageTime, full: 2 * time.Minute, config: impatient, args: brief,
			during: noticed, want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "crawl-uplink", command: crawl, sites: size(5, 40, 0),
			gap: 100 * time.Millisecond, after: 40,
			fail: func(w *world) {
				w.setFaults(netns.CutUplink(0))
				w.names.Break(faulty.NamesFail)
			},
			lasts: outageTime, full: 2 * time.Minute, config: impatient, args: brief,
			during: noticed, want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "crawl-uplink-one-site", command: crawl, sites: sites(1, 80, 0),
			gap: 100 * time.Millisecond, after: 40, config: impatient,
			args: []string{"--patience", "12s"}, // one host alone is suspected after two requests
			fail: func(w *world) {
				w.setFaults(netns.CutUplink(0))
				w.names.Break(faulty.NamesFail)
			},
			lasts: 30 * time.Second, full: 3 * time.Minute, during: noticed,
			want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "run-interface-down", command: run, sites: size(5, 40, 0),
			gap: 100 * time.Millisecond, after: 40, fail: down, lasts: outageTime,
			full: 10 * time.Minute, config: impatient, during: saysOffline,
			want: want{resume: soon, repeats: 1, says: lost},
		},
		{
			name: "run-cut-three-peers", command: run, peers: 3, sites: size(6, 30, 0),
			gap: 100 * time.Millisecond, after: 40, fail: cut, lasts: 30 * time.Second,
			full:   10 * time.Minute,
			config: "timeout = '4s'\npatience = '12s'\n", // peer 0 may have one host only
			want:   want{repeats: 4},                     // one in flight in each subnet of peer 0
		},
		{
			name: "crawl-dropped-100-hosts", command: crawl, sites: sites(100, 3, 1), after: 60,
			fail:  func(w *world) { w.setFaults(netns.Drop(netns.Sites...)) },
			lasts: 20 * time.Second, full: time.Minute, want: want{resume: soon, repeats: 64},
		},
	}
}

// noticed waits until the peers say that the network is lost. The outage lasts longer on a machine
// that is so busy that they have not said it yet.
func noticed(w *world) []string {
	if !w.wait(patience, func() bool { return contains(w.output(), "lost the network") }) {
		return []string{"the outage was not noticed"}
	}
	return nil
}

// saysOffline checks that status says that the first peer is offline.
func saysOffline(w *world) []string {
	var said string
	if !w.wait(patience, func() bool {
		said = w.peers[0].tell("status")
		return contains(said, "offline")
	}) {
		return []string{"status does not say offline:\n" + said}
	}
	return nil
}

// siteRows are outages of sites while the network works.
func siteRows() []row {
	refuseAll := func(w *world) { w.setFaults(netns.Refuse(netns.Sites...)) }
	unavailable := func(w *world) { w.breakSites(faulty.Status(503, 0)) }
	return []row{
		{
			name: "crawl-one-site-refuses", command: crawl, sites: sites(2, 60, 0), after: 20,
			fail:  func(w *world) { w.setFaults(netns.Refuse(one(addr(1)))) },
			lasts: 15 * time.Second, full: 3 * time.Minute, want: want{repeats: 1},
		},
		{
			name: "crawl-refused-100-hosts", command: crawl, sites: hundred(), after: 100,
			fail: refuseAll, lasts: 10 * time.Second, want: want{resume: soon, repeats: 64},
		},
		{
			name: "run-refused-100-hosts", command: run, sites: hundred(), after: 100,
			fail: refuseAll, lasts: 10 * time.Second,
			want: want{resume: 2 * soon, repeats: 64},
		},
		{
			name: "crawl-503-all", command: crawl, sites: sites(1, 40, 0), fail: unavailable,
			lasts: 15 * time.Second, full: 5 * time.Minute,
			want: want{requests: 40 + 40},
		},
		{
			// A back-off that doubles may last as long as the outage.
			name: "run-503-all", command: run, sites: sites(1, 40, 0), fail: unavailable,
			lasts: 15 * time.Second, full: 5 * time.Minute, settle: 7 * time.Minute,
			want: want{requests: 40 + 40},
		},
		{
			name: "crawl-503-pages", command: crawl, sites: sites(1, 60, 0),
			after: 10, fail: func(w *world) {
				w.breakSites(faulty.PagesOnly(faulty.Status(503, 0)))
			},
			lasts: 20 * time.Second, full: 5 * time.Minute,
			want: want{check: unavailableAnswers},
		},
		{
			name: "crawl-reset-30-percent", command: crawl, sites: broken(sites(1, 100, 0),
				faulty.PagesOnly(faulty.Some(0.3, 1, faulty.Reset))),
		},
		{
			name: "crawl-hang-30-percent", command: crawl, sites: broken(sites(4, 10, 0),
				faulty.PagesOnly(faulty.Some(0.3, 3, faulty.Hang))),
		},
		{
			name: "crawl-hang-30-percent-100", long: true, command: crawl,
			sites:  broken(sites(1, 100, 0), faulty.PagesOnly(faulty.Some(0.3, 3, faulty.Hang))),
			settle: 15 * time.Minute,
		},
		{
			name: "crawl-patience", command: crawl, sites: sites(2, 20, 0),
			args: []string{"--patience", "8s"}, after: 5,
			fail:  func(w *world) { w.setFaults(netns.Refuse(one(addr(1)))) },
			lasts: 25 * time.Second,
			want:  want{exit: 1, again: true, says: []string{"refused"}},
		},
	}
}

// hundred returns 100 sites with one queued URL each at a time.
func hundred() []*faulty.Site {
	if *long {
		return sites(100, 30, 1)
	}
	return sites(100, 5, 1)
}

// broken makes all sites have a fault from the beginning, for ever.
func broken(all []*faulty.Site, f faulty.Fault) []*faulty.Site {
	for _, s := range all {
		s.Break(f)
	}
	return all
}

// nameRows are outages of DNS.
func nameRows() []row {
	names := func(f faulty.NameFault) func(*world) {
		return func(w *world) { w.names.Break(f) }
	}
	return []row{
		{
			name: "crawl-servfail", command: crawl, sites: sites(20, 3, 0),
			fail: names(faulty.NamesFail), lasts: 15 * time.Second, full: 3 * time.Minute,
		},
		{
			name: "crawl-dns-silent", command: crawl, sites: sites(60, 2, 0),
			fail: names(faulty.NamesSilent), lasts: 20 * time.Second, full: 3 * time.Minute,
		},
		{
			name: "run-dns-silent", command: run, sites: sites(60, 2, 0),
			fail: names(faulty.NamesSilent), lasts: 20 * time.Second, full: 3 * time.Minute,
		},
		{
			name: "crawl-nxdomain", command: crawl, sites: sites(10, 3, 0),
			fail: names(faulty.NamesUnknown), lasts: 15 * time.Second, full: time.Minute,
		},
		{
			name: "crawl-two-queries", command: crawl, sites: sites(50, 2, 0),
			want: want{check: twoQueries},
		},
		{
			name: "run-two-queries", command: run, sites: sites(50, 2, 0),
			want: want{check: twoQueries},
		},
	}
}

// tlsRows are about certificates, HSTS and connections.
func tlsRows() []row {
	invalid := func(name string, kind faulty.CertKind, words ...string) row {
		return row{
			name: "tls-" + name, command: crawl, sites: https(kind, sites(1, 5, 0)),
			args: []string{"--patience", "5s"},
			want: want{missing: 5, exit: 1, says: append(words, "certificate")},
		}
	}
	upgraded := https(faulty.CertValid, sites(1, 30, 0))
	upgraded[0].LinkPrefix = "http://h0.test"
	upgraded[0].Header = map[string][]string{"Strict-Transport-Security": {"max-age=86400"}}
	return []row{
		invalid("expired", faulty.CertExpired, "expired"),
		invalid("other-host", faulty.CertOtherHost, "other.invalid"),
		invalid("self-signed", faulty.CertSelfSigned, "self-signed|unknown authority"),
		{
			name: "tls-valid", command: crawl, sites: https(faulty.CertValid, sites(3, 20, 0)),
		},
		{
			name: "tls-hsts", command: crawl, sites: upgraded, want: want{check: fewRedirects},
		},
		{
			name: "tls-400-hosts", command: crawl, gap: time.Second,
			sites: https(faulty.CertValid, sites(400, 4, 0)), want: want{check: fewConnections},
		},
		{
			name: "robots-redirect-to-https", command: crawl,
			sites: https(faulty.CertValid, sites(1, 5, 0)), args: []string{"http://h0.test/"},
			want: want{check: robotsOnce},
		},
	}
}
