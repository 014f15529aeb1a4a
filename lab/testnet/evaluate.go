package testnet

import (
	"context"
	"net/netip"
	"strings"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
	"peerd/node/admin"
	"peerd/store"
)

// judge combines the figures of the sites and the peers.
func (t *run) judge() (Report, error) {
	in := emulate.Input{
		Strategy: t.o.Strategy, Seed: t.o.Seed, Peers: t.o.Peers - t.o.Hostile,
		Audit: t.web.Audit(),
		Wall:  time.Since(t.begin),
		PageTime: func(peer int, url string, reused bool) time.Duration {
			return t.web.PageTime(t.layout.PeerPlaces[peer], url, reused)
		},
	}
	for i, n := range t.peers.nodes[:t.o.Peers-t.o.Hostile] {
		s := n.Status()
		in.Exchanged += s.Batches.URLsSent
		in.ControlBytes += s.ControlBytes.Sent
		in.Probes += s.Probes.Made
		in.Subnets = append(in.Subnets, subnetsOf(i, n)...)
		err := n.Pages(context.Background(), func(p store.Page) error {
			if p.Outcome == store.OutcomeOK {
				in.Downloads = append(in.Downloads, emulate.Download{
					Peer: i, URL: string(p.URL), Bytes: p.Bytes, Took: p.Timing.Total(),
					Reused:     p.Timing.Reused,
					Estimation: p.Estimation,
				})
			}
			return nil
		})
		if err != nil {
			return Report{}, err
		}
	}
	all, pages := t.expected()
	return Report{Report: emulate.Evaluate(in), CrawlSeconds: crawlTime(t.web.Log()).Seconds(),
		Expected: emulate.Summarise(all), ContentNetworks: t.contentNetworks(in), pages: pages}, nil
}

// expected returns how long the pages should have taken that the peers fetched.
func (t *run) expected() (all []time.Duration, pages pageTimes) {
	pages = make(pageTimes)
	places := map[netip.Addr]int{}
	for i, a := range t.layout.PeerAddrs {
		places[a] = t.layout.PeerPlaces[i]
	}
	urls := t.web.Sites()
	for _, h := range t.web.Log() {
		from, ok := places[h.Peer]
		to, known := t.network.PlaceOf(h.Addr)
		if h.Page && ok && known {
			origin := strings.TrimSuffix(urls[h.Site].URL, "/")
			all = append(all, t.web.PageTimeAt(from, to, origin+h.Path, h.Reused))
			// That of a warm connection, so that only the places differ.
			pages.add(h.Site, h.Path, t.web.PageTimeAt(from, to, origin+h.Path, true))
		}
	}
	return all, pages
}

// crawlTime returns the time from the first request to the end of the last page.
func crawlTime(log []web.Hit) (d time.Duration) {
	for _, h := range log {
		if h.Page {
			d = max(d, h.End.Sub(log[0].Start))
		}
	}
	return d
}

// owned is the part of a node that the figures need.
type owned interface {
	Queue() []admin.Host
	Subnets() []admin.Subnet
}

func subnetsOf(peer int, n owned) []emulate.Subnet {
	var all []emulate.Subnet
	hosts := map[string][]string{}
	for _, h := range n.Queue() {
		if h.Role == admin.HostOwn {
			hosts[h.Subnet] = append(hosts[h.Subnet], h.Host)
		}
	}
	for _, s := range n.Subnets() {
		// Without hosts, the only one of the claim has another home subnet.
		if of := hosts[s.Subnet]; len(of) > 0 {
			all = append(all, emulate.Subnet{Prefix: netip.MustParsePrefix(s.Subnet), Hosts: of,
				Owner: peer, Estimations: s.Estimations})
		}
	}
	return all
}
