package testnet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"time"

	"peerd/lab/emulate"
	"peerd/lab/emulate/web"
)

// The names of the services in docker-compose.yml; they resolve to the addresses of all containers
// that run.
const (
	peerService = "peer"
	siteService = "site"
)

// maxAnswer is the size of the largest answer of a container that is read.
const maxAnswer = 256 << 20

// Collect asks all sites in containers for what they have seen so far and evaluates that. Figures
// that only the peers know are 0.
func Collect(ctx context.Context, most Bounds) (Report, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", siteService)
	if err != nil {
		return Report{}, fmt.Errorf("testnet: find the sites: %w", err)
	}
	var at []netip.AddrPort
	for _, a := range addrs {
		at = append(at, netip.AddrPortFrom(a.Unmap(), bindPort))
	}
	return collect(ctx, at, most)
}

// collect evaluates the audits at the additional addresses of sites.
func collect(ctx context.Context, at []netip.AddrPort, most Bounds) (Report, error) {
	var sites []web.Site
	in := emulate.Input{}
	peers := make(map[netip.Addr]int) // number
	for _, a := range at {
		if err := get(ctx, a, "/-/sites", &sites); err != nil {
			return Report{}, err
		}
		var one web.Audit
		if err := get(ctx, a, "/-/audit", &one); err != nil {
			return Report{}, err
		}
		in.Audit.Add(one)
		// The owner is not known to a site: it is taken to be the peer that has most pages.
		owner, most := -1, 0
		for addr, c := range one.Peers {
			if _, ok := peers[addr]; !ok {
				peers[addr] = len(peers)
			}
			if c.Pages > most {
				owner, most = peers[addr], c.Pages
			}
		}
		in.Subnets = append(in.Subnets, emulate.Subnet{Hosts: []string{a.String()}, Owner: owner})
	}
	in.Peers = len(peers)
	answered := in.Audit.Sites
	// Sites that do not answer have pages, too.
	in.Audit.Sites, in.Audit.PagesExpected = len(sites), 0
	for _, s := range sites {
		in.Audit.PagesExpected += s.Pages
	}
	r := Report{Report: emulate.Evaluate(in)}
	r.conclude(most)
	if answered != len(sites) {
		r.Shortfalls = append(r.Shortfalls, fmt.Sprintf("%d sites answered, want %d", answered,
			len(sites)))
	}
	if in.Audit.Lost > 0 {
		r.Shortfalls = append(r.Shortfalls, fmt.Sprintf("%d requests not logged, want 0",
			in.Audit.Lost))
	}
	return r, nil
}

// get reads JSON from the additional address of a site.
func get(ctx context.Context, at netip.AddrPort, path string, to any) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at.String()+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("testnet: get %s: %s", req.URL, resp.Status)
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(to); err != nil {
		return fmt.Errorf("testnet: get %s: %w", req.URL, err)
	}
	return nil
}
