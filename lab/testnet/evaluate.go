package testnet

import (
	"context"
	"net/netip"
	"time"

	"peerd/lab/emulate"
	"peerd/store"
)

// judge combines the figures of the sites and the peers.
func (t *run) judge() (Report, error) {
	in := emulate.Input{
		Strategy: t.o.Strategy, Seed: t.o.Seed, Peers: t.o.Peers, Audit: t.web.Audit(),
		Wall: time.Since(t.begin),
		PageTime: func(peer int, url string, reused bool) time.Duration {
			return t.web.PageTime(t.layout.PeerPlaces[peer], url, reused)
		},
	}
	for i, n := range t.peers.nodes {
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
	return Report{Report: emulate.Evaluate(in)}, nil
}

// owned is the part of a node that the figures need.
type owned interface {
	HostsBySubnet() map[netip.Prefix][]string
	EstimationsBySubnet() map[netip.Prefix]int
}

func subnetsOf(peer int, n owned) []emulate.Subnet {
	var all []emulate.Subnet
	hosts := n.HostsBySubnet()
	for p, estimations := range n.EstimationsBySubnet() {
		if len(hosts[p]) > 0 { // otherwise the only host of the claim has another home subnet
			all = append(all, emulate.Subnet{Prefix: p, Hosts: hosts[p], Owner: peer,
				Estimations: estimations})
		}
	}
	return all
}
