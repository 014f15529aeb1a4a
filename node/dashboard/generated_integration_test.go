//go:build integration

package dashboard_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"peerd/internal/order"
	"peerd/node/admin"
)

// generated is a generated peer behind the admin API. Equal sizes and seeds give equal peers. It is
// safe for concurrent use.
type generated struct {
	now     time.Time
	self    string
	peers   []admin.Peer
	subnets []admin.Subnet
	servers []admin.Site
	hosts   []admin.Host
	moves   []admin.Move
	pages   []admin.Page

	mu     sync.Mutex
	events []admin.Event
	ticks  int64
}

var _ admin.Node = (*generated)(nil)

// generate returns a peer that knows other peers and owns subnets, in five regions.
func generate(peers, subnets int, seed uint64) *generated {
	r := rand.New(rand.NewPCG(seed, 1))
	n := &generated{now: time.Now().Truncate(time.Second), self: peerID(r)}
	centers := make([][2]float64, 5)
	for i := range centers {
		a := float64(i) * 2 * math.Pi / 5
		centers[i] = [2]float64{90 * math.Cos(a), 60 * math.Sin(a)}
	}
	at := func(c, spread float64) admin.Coordinate {
		center := centers[int(c)%len(centers)]
		return admin.Coordinate{Height: 1 + r.ExpFloat64(), Error: min(.05+r.ExpFloat64()*.1, 1),
			Vec: []float64{center[0] + r.NormFloat64()*spread, center[1] + r.NormFloat64()*spread}}
	}
	for i := range peers {
		c := at(float64(r.IntN(5)), 14)
		n.peers = append(n.peers, admin.Peer{
			PeerID: peerID(r), Addrs: []string{fmt.Sprintf("/ip4/198.51.%d.%d/tcp/4101", i/256,
				i%256)},
			Connected: i < 60, Coordinate: &c, RTTMs: 5 +
				r.Float64()*150, WaitMs: r.ExpFloat64() * 80,
			Capacity: float64(r.IntN(11)) / 10, Version: "0.1.0", LastSeenS: r.Float64() * 60,
			DistanceMs: 5 + r.Float64()*150})
	}
	for i := range n.peers {
		n.peers[i].Earth = earthOf(*n.peers[i].Coordinate)
	}
	order.SortFunc(n.peers, func(a, b admin.Peer) int { return compare(a.PeerID, b.PeerID) })
	for i := range subnets {
		n.addSubnet(r, i, at(0, 10))
	}
	for i := range subnets / 2 {
		n.servers = append(n.servers, admin.Site{Subnet: fmt.Sprintf("172.%d.%d.0/24", 16+i/256,
			i%256),
			Owner: n.anyPeer(r), At: at(float64(1+r.IntN(4)), 16)})
	}
	for i, s := range n.servers {
		if i%10 > 0 { // the database does not know all
			n.servers[i].Earth = earthOf(s.At)
		}
	}
	n.addActivity(r)
	return n
}

// earthOf puts the coordinate space on Earth.
func earthOf(c admin.Coordinate) *admin.Earth {
	return &admin.Earth{Lat: max(-85, min(c.Vec[1]*.6, 85)),
		Lon: max(-179, min(c.Vec[0]*1.2, 179))}
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func peerID(r *rand.Rand) string {
	const base58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	id := []byte("12D3KooW")
	for range 44 {
		id = append(id, base58[r.IntN(len(base58))])
	}
	return string(id)
}

func (n *generated) anyPeer(r *rand.Rand) string {
	if len(n.peers) == 0 {
		return n.self
	}
	return n.peers[r.IntN(len(n.peers))].PeerID
}

// addSubnet adds a subnet of this peer with a host.
func (n *generated) addSubnet(r *rand.Rand, i int, at admin.Coordinate) {
	name := fmt.Sprintf("10.%d.%d.0/24", i/256, i%256)
	predicted := 20 + r.ExpFloat64()*80
	s := admin.Subnet{
		Subnet: name, Epoch: uint64(1 + r.IntN(4)), Hosts: 1 +
			r.IntN(5), Pending: int64(r.IntN(5000)),
		State: admin.SubnetOwned, Estimations: r.IntN(6), Why: "claimed subnet",
		Since:       n.now.Add(-time.Duration(r.IntN(1e6)) * time.Second),
		PredictedMs: predicted, MeasuredMs: predicted * (.7 +
			.6*r.Float64()), Measured: r.IntN(900),
		Proxy: &admin.Proxy{At: at, Delay: 12, Scale: 1.5, PerKB: .4, Error: .1 + .2*r.Float64(),
			Samples: 4 + r.IntN(60)}}
	switch r.IntN(40) {
	case 0:
		s.State, s.Proxy = admin.SubnetEstimating, nil
	case 1:
		s.State = admin.SubnetLeaving
	case 2:
		s.Unverified = true
	}
	n.subnets = append(n.subnets, s)
	if s.Proxy != nil {
		n.servers = append(n.servers, admin.Site{Subnet: name, Owner: n.self, Own: true, At: at})
	}
	next := n.now.Add(time.Duration(r.IntN(5000)) * time.Millisecond)
	n.hosts = append(n.hosts, admin.Host{Host: fmt.Sprintf("www%d.example.org", i), Subnet: name,
		Role: admin.HostOwn, Pending: s.Pending, InFlight: int64(r.IntN(2)), NextAt: &next,
		DelayMs: float64(r.IntN(5000)), Owner: n.self})
}

// addActivity adds pages, moves and events.
func (n *generated) addActivity(r *rand.Rand) {
	for i := range min(1000, len(n.subnets)) {
		n.pages = append(n.pages, admin.Page{
			URL: fmt.Sprintf("https://www%d.example.org/article/%d", i, r.IntN(1e6)), Status: 200,
			Seq: uint64(1000 - i), Outcome: "ok", Bytes: int64(2000 + r.IntN(90_000)),
			ContentType: "text/html",
			FetchedAt:   n.now.Add(-time.Duration(i) * 300 * time.Millisecond), Links: r.IntN(120),
			TookMs: 20 + r.ExpFloat64()*150, Estimation: i%9 == 0,
			Title: fmt.Sprintf("Article %d <b>of</b> the day", i)})
	}
	for i := range min(120, len(n.subnets)) {
		m := admin.Move{
			Seq: uint64(240 - i), At: n.now.Add(-time.Duration(i) * 7 * time.Minute),
			Subnet: n.subnets[i].Subnet, Kind: admin.EventGained, Peer: n.anyPeer(r),
			Why: "received subnet", OwnerMs: 40, HereMs: 40, BestMs: 36, MeasuredMs: 43,
			Verdict: admin.VerdictRight}
		if i%3 == 0 {
			m.Kind, m.Why, m.OwnerMs, m.MeasuredMs = admin.EventLost,
				"handed over subnet: another peer is nearer (gain 0.38)", 25, 0
			m.BestMs = 25
		}
		if i%10 == 7 {
			m.Verdict, m.OwnerMs = admin.VerdictWrong, 95
		}
		n.moves = append(n.moves, m)
	}
	for i := range 200 {
		n.addEvent(admin.Event{At: n.now.Add(-time.Duration(200-i) * time.Minute),
			Level: []string{"INFO", "INFO", "INFO", "WARN"}[i%4],
			Kind:  []admin.EventKind{admin.EventGained, admin.EventPeer, admin.EventOther}[i%3],
			Text:  []string{"claimed subnet (epoch 1)", "peer joined", "gave up host"}[i%3],
			Peer:  n.anyPeer(r)})
	}
}

func (n *generated) addEvent(e admin.Event) {
	n.mu.Lock()
	defer n.mu.Unlock()
	e.Seq = uint64(len(n.events) + 1)
	n.events = append(n.events, e)
}

// AddEvent adds an event, as if it happened now.
func (n *generated) AddEvent(text string) {
	n.addEvent(admin.Event{At: time.Now(), Level: "INFO", Kind: admin.EventOther, Text: text})
}

// Status returns a state in which the counters grow with each call.
func (n *generated) Status() admin.Status {
	n.mu.Lock()
	n.ticks++
	t := n.ticks
	n.mu.Unlock()
	return admin.Status{
		PeerID: n.self, Addrs: []string{"/ip4/198.51.100.7/tcp/4101/p2p/" + n.self},
		Health:  admin.Health{State: admin.HealthCrawling, Why: "2481003 URLs are waiting"},
		Replay:  "http://127.0.0.1:8090/",
		GeoDB:   "Generated-City of 2026-11-01",
		Network: "peerd-5f2a", Strategy: "proxy", UptimeS: 93_784 + 2*float64(t),
		Coordinate:     admin.Coordinate{Vec: []float64{90, 0}, Height: 1.2, Error: .08},
		PeersConnected: 60, Directory: len(n.peers),
		Bootstrap:    []admin.BootstrapAddr{{Addr: "/dns/boot.example/tcp/4101", Connected: true}},
		SubnetsOwned: len(n.subnets), Hosts: len(n.hosts),
		Frontier:   admin.Frontier{Pending: 2_481_003, InFlight: 41, Unclaimed: 120},
		OutboxURLs: 5_310, PagesFetched: 812_400 + 34*t, BytesFetched: 61e9 + 3_000_000*t,
		Failed: 2_103, RobotsDenied: 9_411, URLsSeen: 9_103_000, Fetches: 830_000 + 35*t,
		Dropped:  map[string]int64{"limit": 210, "yield": 9_001},
		Marked:   map[string]int64{"duplicate": 4_020},
		Revisits: admin.Revisits{Done: 17_600, NotModified: 9_300, Changed: 2_100},
		Blocked:  []string{},
		Batches: admin.Batches{Sent: 5_201, Received: 7_810, URLsSent: 4_100_000,
			URLsReceived: 5_900_200},
		Estimations:  admin.Estimations{Requested: 60_121, Served: 41_020 + t, Scouts: 810},
		Probes:       admin.Probes{Made: 90_000, Connects: 12_000},
		OwnerMap:     admin.OwnerMap{Subnets: len(n.servers), Sent: 20_000, Received: 90_000},
		Handovers:    admin.Handovers{Out: 4_100, In: 5_201, Moves: 310, Takeovers: 12},
		ControlBytes: admin.Traffic{Sent: 310_000_000 + 9_000*t, Received: 402_000_000 + 9_000*t},
	}
}

// Peers returns the generated peers.
func (n *generated) Peers() []admin.Peer { return n.peers }

// Subnets returns the generated subnets.
func (n *generated) Subnets() []admin.Subnet { return n.subnets }

// Servers returns the subnets of this peer and half as many of others.
func (n *generated) Servers() []admin.Site { return n.servers }

// Moves returns the generated moves.
func (n *generated) Moves() []admin.Move { return n.moves }

// Queue returns a host for each subnet.
func (n *generated) Queue() []admin.Host { return n.hosts }

// NewPages returns the generated pages, the oldest first.
func (n *generated) NewPages() []admin.Page {
	all := slices.Clone(n.pages)
	slices.Reverse(all)
	return all
}

// Gain returns times that are between those of the fastest peers and of random ones.
func (n *generated) Gain() admin.Gain {
	return admin.Gain{Strategy: "proxy", Subnets: 200, Pages: 81_240, MeasuredMs: 61, HereMs: 58,
		RandomMs: 142, BestMs: 49}
}

// RecentPages returns the generated pages.
func (n *generated) RecentPages() []admin.Page { return n.pages }

// Limits returns limits of which one is active.
func (n *generated) Limits() []admin.Limit {
	return []admin.Limit{
		{Name: "network"}, {Name: "witnesses"},
		{Name: "working hours", Setting: "crawl.hours"},
		{Name: "pages a day", Setting: "crawl.pages_per_day", Unit: "pages", Used: 812_400,
			Max: 1e6},
		{Name: "bandwidth", Setting: "crawl.bandwidth", Unit: "bytes/s", Used: 1.48e6, Max: 1.5e6,
			Active: true, Advice: "requests wait for the bandwidth; raise crawl.bandwidth"},
		{Name: "free disk space", Setting: "crawl.min_free", Unit: "bytes", Used: 310e9,
			Max: 128 << 20, Least: true},
		{Name: "archive", Setting: "archive.quota", Unit: "bytes"},
		{Name: "politeness", Setting: "crawl.min_delay", Unit: "servers", Used: 6_210, Max: 9_800},
		{Name: "workers", Setting: "crawl.fetch_workers", Unit: "requests", Used: 41, Max: 64},
		{Name: "URLs for other peers", Unit: "URLs", Used: 5_310, Max: 10_000_000},
	}
}

// Settings returns some settings.
func (n *generated) Settings() []admin.Setting {
	return []admin.Setting{
		{Key: "strategy", Value: "proxy", Default: "proxy"},
		{Key: "contact", Value: "https://example.org/crawler", Changed: true},
		{Key: "crawl.bandwidth", Value: "1500000", Default: "0", Changed: true},
		{Key: "crawl.fetch_workers", Value: "64", Default: "64"},
	}
}

// DenyList returns two rules.
func (n *generated) DenyList() ([]admin.DenyRule, error) {
	return []admin.DenyRule{{Rule: ".private.example"}, {Rule: "192.0.2.0/24"}}, nil
}

// History returns a day of samples.
func (n *generated) History() (all []admin.Sample) {
	for i := int64(0); i < 1440; i += 5 {
		at := n.now.Add(time.Duration(i-1440) * time.Minute)
		wave := int64(70_000 * math.Sin(float64(i)/200))
		all = append(all, admin.Sample{At: at, Pages: 1000*i + wave, Fetches: 1020*i + wave,
			Served: 90 * i, Bytes: 75_000_000 * i, Free: 320e9 - 7_000_000*i,
			Pending: 2_000_000 + 300*i})
	}
	return all
}

// Disk returns a disk that is full in about a month.
func (n *generated) Disk() admin.Disk {
	full := n.now.Add(31 * 24 * time.Hour)
	return admin.Disk{Free: 310e9, MinFree: 128 << 20, PerDay: 1e10, ObservedS: 86_400,
		FullAt: &full}
}

// Events returns the generated events and those added.
func (n *generated) Events() []admin.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.events)
}

// Placement returns the placement of any host: another peer owns its subnet.
func (n *generated) Placement(_ context.Context, of string) (admin.Placement, error) {
	if of == "unknown.example" {
		return admin.Placement{}, fmt.Errorf("%w: unknown.example has no address",
			admin.ErrBadRequest)
	}
	p := admin.Placement{
		Of: of, Subnet: "172.16.4.0/24", Found: "lookup", Epoch: 3, Verdict: admin.VerdictRight,
		Why: "Another peer is the owner. The subnet has had 3 leases with different epochs. It " +
			"is predicted to need 31 ms for a typical page, the fastest known peer 29 ms.",
		Moves: n.moves[:min(2, len(n.moves))],
	}
	for i := range min(5, len(n.peers)) {
		p.Candidates = append(p.Candidates, admin.Candidate{PeerID: n.peers[i].PeerID,
			Owner:       i == 1,
			PredictedMs: 29 + 2*float64(i), DistanceMs: 8 + float64(i)})
	}
	if len(p.Candidates) > 1 {
		p.Owner = p.Candidates[1].PeerID
	}
	return p, nil
}

// Trace returns a URL that another peer has fetched.
func (n *generated) Trace(ctx context.Context, url string) (admin.Trace, error) {
	p, err := n.Placement(ctx, "www0.example.org")
	due := n.now.Add(24 * time.Hour)
	return admin.Trace{URL: url, Host: p.Of, Placement: &p,
		Here: admin.URLState{Place: admin.PlaceNone, Why: "It went to the owner."},
		AtOwner: &admin.URLState{Place: admin.PlaceNone, Why: "It was fetched.", Seen: true,
			HostState: "answering", NextVisit: &due, Page: &admin.Page{URL: url, Status: 200,
				Outcome: "ok", Bytes: 5000, FetchedAt: n.now}},
	}, err
}

// The methods that change a peer say that they did it.

// Robots returns one file.
func (n *generated) Robots(host string, _ bool) ([]admin.RobotsFile, error) {
	return []admin.RobotsFile{{Origin: "https://" + host, State: admin.RobotsKnown, Status: 200,
		Fetched: n.now, Expires: n.now.Add(time.Hour)}}, nil
}

// Seed rejects one URL more than it accepts.
func (n *generated) Seed(_ context.Context, urls []string) (admin.SeedResult, error) {
	return admin.SeedResult{Accepted: len(urls), Invalid: []admin.Rejected{{URL: "x",
		Reason: "not a URL"}}}, nil
}

// Changed is Seed.
func (n *generated) Changed(ctx context.Context, urls []string) (admin.SeedResult, error) {
	return n.Seed(ctx, urls)
}

// Links yields one page.
func (n *generated) Links(_ context.Context, _ string, yield func(admin.Link) error) error {
	return yield(admin.Link{URL: "https://www.example.org/", Status: 200, Outcome: "ok",
		FetchedAt: n.now, Outlinks: []string{"https://www.example.org/a"}})
}

// GivenUp yields one URL.
func (n *generated) GivenUp(
	_ context.Context, host string, yield func(admin.GivenUp) error,
) error {
	return yield(admin.GivenUp{URL: "https://" + host + "/", Outcome: "timeout", At: n.now,
		First: n.now, Tries: 3})
}

// Retry queues one URL.
func (n *generated) Retry(context.Context, admin.RetryRequest) (admin.RetryResult, error) {
	return admin.RetryResult{Queued: 1}, nil
}

// generatedHits is the number of pages that a search finds.
const generatedHits = 25

// Search finds pages for any query but "nothing". One peer does not answer. The error matches
// ErrBadRequest for a query that begins with a hyphen.
func (n *generated) Search(
	_ context.Context, query string, offset, limit int,
) (r admin.SearchResult, err error) {
	if strings.HasPrefix(query, "-") {
		return r, fmt.Errorf("%w: the query has no word to find", admin.ErrBadRequest)
	}
	r = admin.SearchResult{Offset: offset, Answered: 4}
	if query == "nothing" {
		return r, nil
	}
	r.Total, r.Partial, r.Failed, r.NoIndex = generatedHits, true, 1, 2
	const before = "Ein schöner <b>Tag</b> für "
	for i := offset; i < min(offset+limit, generatedHits); i++ {
		r.Hits = append(r.Hits, admin.SearchHit{
			URL:   fmt.Sprintf("https://www%d.example.org/page/%d", i, i),
			Title: fmt.Sprintf("Page %d <i>of</i> many", i), Type: "html", Language: "de",
			FetchedAt: n.now.Add(-time.Duration(i) * time.Hour), Score: 30 - float64(i),
			Peer: n.anyHit(i), Snippet: before + query + " und mehr",
			Marks: [][2]int{{len(before), len(before) + len(query)}}})
	}
	return r, nil
}

// anyHit returns the peer that has a hit.
func (n *generated) anyHit(i int) string {
	if len(n.peers) == 0 {
		return n.self
	}
	return n.peers[i%len(n.peers)].PeerID
}

// Pause does nothing.
func (n *generated) Pause(time.Duration) error { return nil }

// Resume does nothing.
func (n *generated) Resume() error { return nil }

// Reload changes nothing.
func (n *generated) Reload() (admin.Reloaded, error) { return admin.Reloaded{}, nil }

// Stop does nothing.
func (n *generated) Stop() {}

// Leave is done at once.
func (n *generated) Leave(
	_ context.Context, _ time.Duration, report func(admin.Drain) error,
) error {
	return report(admin.Drain{Done: true})
}
