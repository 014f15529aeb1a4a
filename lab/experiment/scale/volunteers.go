package scale

import (
	"context"
	"fmt"
	"math"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/lab/emulate/wan"
	"peerd/lab/experiment"
	"peerd/lab/experiment/crawlsim"
	"peerd/node/config"
	"peerd/node/strategy"
	"peerd/overlay"
	"peerd/overlay/ownermap"
	"peerd/overlay/peers"
)

// Volunteers is the experiment "volunteers".
func Volunteers() experiment.Experiment {
	return experiment.Experiment{
		Name:   "volunteers",
		Title:  "What volunteers crawl in a day on the whole Internet, and what limits them",
		Source: "measured costs; docs/scale.md", Run: runVolunteers,
	}
}

// internet is the web that is crawled. docs/scale.md names the sources.
type internet struct {
	hosts     float64 // registered domains
	addresses float64 // of web servers
	exponent  float64 // of the hosts of an address by rank: Zipf
	subnets   float64 // /24s with web servers
}

var theInternet = internet{hosts: 213e6, addresses: 7.2e6, exponent: 0.8, subnets: 3e6}

// costs are what a peer and an operation cost, in bytes and seconds; docs/scale.md has the
// command that measures each.
type costs struct {
	pageBytes   float64 // of a page from the web
	pageTime    float64 // s, from the request to the last byte
	pageCPU     float64 // s, with an index and a copy of the archive
	pageControl float64 // bytes sent to other peers for a page: URLs, records, change log
	witness     float64 // bytes/s sent to witnesses and as one
	renewal     float64 // bytes/h of an owned subnet: its lease
	claim       float64 // bytes of a claim, the handover after it, and 29 reads of the lease
	lookup      float64 // bytes of a look-up of a lease
	record      float64 // bytes of a stored lease
	holders     float64 // peers that store a lease
	connection  float64 // bytes of a connection to a peer that is not connected
	announced   float64 // bytes of a lease in an announcement of an owner
	copies      float64 // of a message of gossip that a peer sends, at most
	subnetRAM   float64 // bytes of memory of an owned subnet, and of a copy
	urlDisk     float64 // bytes of a queued URL
}

var measuredCosts = costs{
	pageBytes: 34e3, pageTime: 0.3, pageCPU: 1.85e-3, pageControl: 520, witness: 390,
	renewal: 4900, claim: 239e3, lookup: 6e3, record: 1447, holders: 12, connection: 2e3,
	announced: 300, copies: 7, subnetRAM: 1700, urlDisk: 165,
}

// The assumptions about volunteers and the web.
const (
	lineBps       = 10e6 / 8 // bytes/s of a volunteer, each way
	day           = 86400.0
	foreign       = 10   // links of a page to other hosts that its peer has not sent before
	takeUp        = 30.0 // days in which all subnets are claimed
	cores         = 1.0
	pagesPerHost  = 100 // a host is crawled once in 30 days
	revisitInDays = 30.0
)

// volunteersRow is a network of volunteers. Bytes are those sent by a peer, which receives as
// many; a page is received, too.
type volunteersRow struct {
	Peers   float64 `json:"peers"`
	Batches string  `json:"batches"` // when URLs are sent: default, or 16
	Subnets float64 `json:"subnets_per_peer"`
	// The pages a day of all peers, in millions, and what limits them.
	Pages float64 `json:"mpages_day"`
	Limit string  `json:"limit"`
	// The pages a day, in millions, that lines without other traffic, processors, and politeness
	// towards all addresses would allow.
	Line       float64 `json:"line_mpages_day"`
	Processor  float64 `json:"processor_mpages_day"`
	Politeness float64 `json:"politeness_mpages_day"`
	// Control is the share of a line that peers need for each other, and of that the bytes/s by
	// purpose.
	Control     float64 `json:"control_share"`
	Idle        float64 `json:"idle_bytes_s"`
	Witness     float64 `json:"witness_bytes_s"`
	Leases      float64 `json:"leases_bytes_s"`
	Lookups     float64 `json:"lookups_bytes_s"`
	Connections float64 `json:"connections_bytes_s"`
	Gossip      float64 `json:"gossip_bytes_s"`
	PageControl float64 `json:"page_control_bytes_s"`
	// Memory of the subnets and disk of the records of a peer; the share of all subnets that its
	// owner map can hold; disk of the URLs of pagesPerHost pages of each host.
	SubnetMB float64 `json:"subnet_ram_mb"`
	RecordMB float64 `json:"records_mb"`
	Known    float64 `json:"owner_map_share"`
	URLGB    float64 `json:"url_disk_gb"`
}

// maxConnected is the number of connections of a peer (overlay/host.go).
const maxConnected = 896

// volunteers computes a row. Batches of URLs wait for their oldest one, and for least URLs.
func volunteers(n float64, w internet, c costs, idle, least float64) volunteersRow {
	r := volunteersRow{Peers: n, Batches: "default", Subnets: w.subnets / n, Idle: idle,
		Witness: c.witness}
	if least > 1 {
		r.Batches = fmt.Sprint(least)
	}
	r.Line = n * lineBps / c.pageBytes * day / 1e6
	r.Processor = n * cores / c.pageCPU * day / 1e6
	r.Politeness = w.addresses * perAddress(c.pageTime) / 1e6
	r.Leases = r.Subnets*c.renewal/3600 + r.Subnets*c.claim/(takeUp*day)
	r.Gossip = c.copies * (float64(ownermap.DefaultConfig().RepeatRate) +
		2*w.subnets*c.announced/(takeUp*day))
	age := config.Default().Overlay.BatchMaxAge.Seconds()
	connected := min(1, maxConnected/max(1, n-1))
	// The pages of a peer in a second: what their traffic leaves of the line.
	pages := min(r.Processor, r.Politeness) * 1e6 / n / day
	for range 100 {
		links := pages * foreign
		// Leases are believed for half a day. A peer with a copy, and a former owner, read the
		// lease when they get a URL of the subnet.
		r.Lookups = (2*w.met(links*day/2)/day + 2*links/n) * c.lookup
		batch := max(least, 1+links/max(1, n-1)*age)
		r.Connections = (1 - connected) * links / batch * c.connection
		r.PageControl = pages * c.pageControl
		control := r.Idle + r.Witness + r.Leases + r.Lookups + r.Gossip + r.PageControl +
			r.Connections
		r.Control = control / lineBps
		left := max(0, lineBps-control) / c.pageBytes
		pages = min(r.Processor*1e6/n/day, r.Politeness*1e6/n/day, 0.9*pages+0.1*left)
	}
	r.Pages = pages * n * day / 1e6
	switch {
	case r.Pages > 0.99*r.Processor:
		r.Limit = "processor"
	case r.Pages > 0.99*r.Politeness:
		r.Limit = "politeness"
	default:
		r.Limit = "line"
	}
	r.SubnetMB = 2 * r.Subnets * c.subnetRAM / 1e6 // its own and one copy
	r.RecordMB = r.Subnets * c.holders * c.record / 1e6
	r.Known = min(1, float64(ownermap.DefaultConfig().Max)/w.subnets)
	r.URLGB = w.hosts * pagesPerHost / n * c.urlDisk / 1e9
	return r
}

// met returns the number of different subnets to which some links lead, if links are spread over
// subnets as hosts are over addresses.
func (w internet) met(links float64) (subnets float64) {
	w.ranks(w.subnets, func(hosts, n float64) {
		subnets += n * (1 - math.Exp(-links*hosts/w.hosts))
	})
	return subnets
}

// perAddress returns the pages of an address in a day: one request at a time, and a pause of at
// least a second, or ten times as long as the page took.
func perAddress(pageTime float64) float64 {
	return day / (pageTime + min(max(1, 10*pageTime), 60))
}

// crowded returns the shares of the hosts, and of their pages, for which the rate of their
// address does not suffice.
func (w internet) crowded(c costs) (hosts, pages float64) {
	most := perAddress(c.pageTime)
	w.ranks(w.addresses, func(n, addresses float64) {
		if want := n * pagesPerHost / revisitInDays; want > most {
			hosts += addresses * n / w.hosts
			pages += addresses * (want - most) / (w.hosts * pagesPerHost / revisitInDays)
		}
	})
	return hosts, pages
}

// ranks calls f with ranges of units, such as addresses, that have about as many hosts each, the
// most crowded first.
func (w internet) ranks(units float64, f func(hosts, units float64)) {
	// The integral of rank^-exponent from 1/2 to units+1/2.
	e := 1 - w.exponent
	integral := func(a, b float64) float64 { return (math.Pow(b, e) - math.Pow(a, e)) / e }
	all := integral(0.5, units+0.5)
	for from := 0.5; from < units+0.5; {
		to := min(units+0.5, max(from+1, from*1.01))
		f(w.hosts*integral(from, to)/all/(to-from), to-from)
		from = to
	}
}

// maxCrawled is the largest number of peers of a simulated crawl. Decisions about ever more
// candidates take most of the time.
const maxCrawled = 200

// calibrated is the size of the small network.
const calibrated = 50

// checkRow compares a prediction with a simulation.
type checkRow struct {
	What      string  `json:"what"`
	Peers     int     `json:"peers"`
	Predicted float64 `json:"predicted"`
	Simulated float64 `json:"simulated"`
	Ratio     float64 `json:"ratio"` // simulated ÷ predicted
}

func runVolunteers(ctx context.Context, p experiment.Params, out experiment.Out) error {
	sizes := []int{100, 1000}
	rounds := p.Or(p.Rounds, 40, 24)
	if p.Quick {
		sizes = []int{60}
	}
	if p.Peers > 0 {
		sizes = []int{p.Peers}
	}
	// In a small network is seen which share of the beacons reaches a peer before the next ones.
	small, known, bytes, err := idleTraffic(ctx, calibrated, rounds, max(p.Seed, 1))
	if err != nil {
		return err
	}
	exchanges, beacons := idleBytes(known, bytes)
	share := (small - exchanges) / beacons
	idle := small
	for i, n := range sizes {
		simulated, known, bytes, err := idleTraffic(ctx, n, rounds, max(p.Seed, 1))
		if err != nil {
			return err
		}
		exchanges, beacons := idleBytes(known, bytes)
		check(out, checkRow{What: "bytes/s sent by an idle peer", Peers: n,
			Predicted: exchanges + share*beacons, Simulated: simulated})
		idle = max(idle, simulated)
		out.Progress(float64(i+1)/float64(2*len(sizes)), fmt.Sprintf("idle, %d peers", n))
	}
	for i, n := range sizes {
		if n > maxCrawled {
			out.Note("A crawl of %d peers takes too long, and is not simulated.", n)
			continue
		}
		got, err := crawlOf(ctx, n, 2*n, max(p.Seed, 1))
		if err != nil {
			return err
		}
		check(out, checkRow{What: "pages a day of an address", Peers: n, Predicted: got.predicted,
			Simulated: got.perServer})
		out.Progress(0.5+float64(i+1)/float64(2*len(sizes)), fmt.Sprintf("crawl, %d peers", n))
	}
	for _, n := range []float64{10, 100, 1000, 10_000, 100_000} {
		for _, least := range []float64{1, 16} {
			out.Row("volunteers", volunteers(n, theInternet, measuredCosts, idle, least))
		}
	}
	hosts, pages := theInternet.crowded(measuredCosts)
	out.Note("A volunteer has %.0f Mbit/s each way and %.0f core. The web has %.3g hosts at %.3g "+
		"addresses in %.3g /24s; each host has %d pages in %.0f days. Politeness allows an "+
		"address %.0f pages a day: too few for %.0f %% of the hosts, which would miss %.0f %% of "+
		"all pages.",
		lineBps*8/1e6, cores, theInternet.hosts, theInternet.addresses, theInternet.subnets,
		pagesPerHost, revisitInDays, perAddress(measuredCosts.pageTime), 100*hosts, 100*pages)
	return nil
}

// check writes a row, and a claim that the prediction is within a fifth.
func check(out experiment.Out, r checkRow) {
	r.Ratio = round3(r.Simulated / r.Predicted)
	out.Row("checks", r)
	out.Claim(fmt.Sprintf("%s, %d peers", r.What, r.Peers), "within 20 % of the prediction",
		fmt.Sprintf("%.4g, predicted %.4g", r.Simulated, r.Predicted),
		math.Abs(r.Ratio-1) <= 0.2)
}

func round3(x float64) float64 { return math.Round(x*1000) / 1000 }

// idleTraffic simulates the exchanges of n peers and returns the bytes that each sends in a second,
// and the peers that it knows.
func idleTraffic(
	ctx context.Context, n, rounds int, seed uint64,
) (bytes, known float64, sizes peers.Sizes, err error) {
	names, err := overlay.NewNames("scale-0123456789abcdef")
	if err != nil {
		return 0, 0, sizes, err
	}
	sizes, err = peers.MeasureSizes(names.Beacons(), names.Coords(),
		coords.DefaultConfig().Dimensions)
	if err != nil {
		return 0, 0, sizes, err
	}
	s := &scaleRun{n: n, seed: seed, rounds: rounds, sizes: sizes}
	if err := s.run(ctx, func(float64, string) {}); err != nil {
		return 0, 0, sizes, err
	}
	return s.row.Bytes, s.row.Table, sizes, nil
}

// idleBytes returns what an idle peer sends in a second by the sizes of messages: for exchanges,
// with digests of the peers that both know; and for beacons, if each that it knows were passed on
// once in each interval between beacons.
func idleBytes(known float64, sizes peers.Sizes) (exchanges, beacons float64) {
	cfg := peers.DefaultConfig()
	every := math.Max(cfg.Interval.Seconds(), known*cfg.Spacing.Seconds())
	digests := 2 * float64(sizes.Entry) * known / float64(sizes.Parts(int(known)))
	return (float64(sizes.Exchange) + digests) / cfg.SlowInterval.Seconds(),
		known / every * float64(sizes.Beacon)
}

// crawled is what a simulated crawl gives.
type crawled struct {
	perServer float64 // pages a day
	predicted float64 // from the time of a page at the fastest peer of each server, and politeness
}

// crawlOf simulates a crawl of half an hour, without moves.
func crawlOf(ctx context.Context, n, sites int, seed uint64) (c crawled, err error) {
	places := wan.Cities()
	w := crawlsim.NewWorld(wan.NewWorld(places, seed), places, n, sites, crawlsim.Plain(), seed)
	cfg := crawlsim.Default()
	cfg.World, cfg.Seed, cfg.Watch, cfg.Pages = w, seed, nil, 0
	cfg.Traits = time.Minute
	cfg.End = cfg.WarmUp + cfg.FoundWithin + 30*time.Minute
	cfg.Strategy = func(self string) (assign.Strategy, error) {
		return strategy.New("proxy", strategy.Config{Self: self, Seed: seed})
	}
	s, err := crawlsim.New(cfg)
	if err != nil {
		return c, err
	}
	for server := range sites {
		best := 0
		for peer := range n {
			if s.Expected(peer, server) < s.Expected(best, server) {
				best = peer
			}
		}
		// One page in fifty takes a second more. A failed request takes three, and
		// is repeated after one.
		took, fails := s.Expected(best, server).Seconds(), w.Peers[best].Fails
		cycle := day/perAddress(took) + (day/perAddress(took+1)-day/perAddress(took))/50
		c.predicted += day / (cycle + fails/(1-fails)*4) / float64(sites)
	}
	if err := s.Run(ctx, nil); err != nil {
		return c, err
	}
	from := cfg.End - 20*time.Minute
	pages := 0.0
	for _, d := range s.Downloads() {
		if d.At >= from && !d.Failed {
			pages++
		}
	}
	c.perServer = pages / float64(sites) * day / (20 * time.Minute).Seconds()
	return c, nil
}
