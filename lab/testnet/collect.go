package testnet

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
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
// that only the peers know are 0; page times are computed from the distances, if there are any.
func Collect(ctx context.Context, most Bounds) (Report, error) {
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip4", siteService)
	if err != nil {
		return Report{}, fmt.Errorf("testnet: find the sites: %w", err)
	}
	var at []netip.AddrPort
	for _, a := range addrs {
		at = append(at, netip.AddrPortFrom(a.Unmap(), bindPort))
	}
	// Without distances nothing listens there.
	var control controlState
	if len(addrs) > 0 {
		_ = get(ctx, controlAddr(netip.PrefixFrom(at[0].Addr(), 16).Masked()), "/", &control)
	}
	return collect(ctx, at, control.Distances, most)
}

// collect evaluates the audits at the additional addresses of sites, and with distances their logs.
func collect(
	ctx context.Context, at []netip.AddrPort, d Distances, most Bounds,
) (Report, error) {
	var sites []web.Site
	var log []web.Hit
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
		subnet := emulate.Subnet{Hosts: []string{a.String()}, Owner: owner}
		if d.Seed != 0 {
			hits, err := getLog(ctx, a)
			if err != nil {
				return Report{}, err
			}
			if i := slices.IndexFunc(hits, func(h web.Hit) bool { return h.Page }); i >= 0 {
				subnet.Hosts[0] = hits[i].Host // a container serves one site
			}
			log = append(log, hits...)
		}
		in.Subnets = append(in.Subnets, subnet)
	}
	in.Peers = len(peers)
	if d.Seed != 0 {
		d.times(&in, log, peers)
	}
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
	return r, nil
}

// times gives in what the emulated distances make of the log of a site: each page, how long the
// peer took for it, and how long others would have. Waits at a peer, and changes of the distances,
// are not in it. peers are their numbers.
func (d Distances) times(in *emulate.Input, log []web.Hit, peers map[netip.Addr]int) {
	world := d.plan().World
	addrs := make([]netip.Addr, len(peers))
	for a, i := range peers {
		addrs[i] = a
	}
	hits := map[string]web.Hit{}
	for _, h := range log {
		if h.Page {
			hits["http://"+h.Host+h.Path] = h
		}
	}
	in.PageTime = func(peer int, url string, reused bool) time.Duration {
		h := hits[url]
		from, ok1 := d.place(addrs[peer])
		to, ok2 := d.place(h.Addr)
		if !ok1 || !ok2 {
			return 0
		}
		return web.LinkTime(world.Link(from, to), h.Bytes, reused) + h.End.Sub(h.Start)
	}
	owners := map[string]int{}
	for _, s := range in.Subnets {
		for _, host := range s.Hosts {
			owners[host] = s.Owner
		}
	}
	for url, h := range hits {
		peer := peers[h.Peer]
		in.Downloads = append(in.Downloads, emulate.Download{
			Peer: peer, URL: url, Bytes: h.Bytes, Took: in.PageTime(peer, url, h.Reused),
			Reused: h.Reused, Estimation: peer != owners[h.Host],
		})
	}
}

// get reads JSON from the additional address of a site.
func get(ctx context.Context, at netip.AddrPort, path string, to any) error {
	return exchange(ctx, http.MethodGet, at, path, nil,
		func(d *json.Decoder) error { return d.Decode(to) })
}

// getLog reads the log of a site.
func getLog(ctx context.Context, at netip.AddrPort) (log []web.Hit, err error) {
	err = exchange(ctx, http.MethodGet, at, "/-/log", nil, func(d *json.Decoder) error {
		for d.More() {
			var h web.Hit
			if err := d.Decode(&h); err != nil {
				return err
			}
			log = append(log, h)
		}
		return nil
	})
	return log, err
}

// exchange sends a request to a site, and passes the answer to decode unless that is nil.
func exchange(
	ctx context.Context, method string, at netip.AddrPort, path string, body io.Reader,
	decode func(*json.Decoder) error,
) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+at.String()+path, body)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("testnet: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10)) // what has arrived
		return fmt.Errorf("testnet: %s: %s: %s", req.URL, resp.Status, bytes.TrimSpace(text))
	}
	if decode == nil {
		return nil
	}
	if err := decode(json.NewDecoder(io.LimitReader(resp.Body, maxAnswer))); err != nil {
		return fmt.Errorf("testnet: get %s: %w", req.URL, err)
	}
	return nil
}
