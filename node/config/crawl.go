package config

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"peerd/crawl/resolve"
)

// MaxFetchWorkers bounds Crawl.FetchWorkers.
const MaxFetchWorkers = 4096

// Crawl is the section [crawl]: how this peer fetches from web servers.
type Crawl struct {
	// MinDelay is the minimum time between the end of a request to a host, or to an address, and
	// the start of the next one. A longer minimum of the profile, or a longer crawl-delay of the
	// server, applies instead.
	MinDelay Duration `toml:"min_delay"`
	// AddressRequests is the maximum number of concurrent requests to an address that serves many
	// domains, and the factor by which its rate may grow; 1: one at a time (frontier.Observe).
	AddressRequests int `toml:"address_requests"`
	// NetworkRequests is the maximum number of concurrent requests to a network of addresses, an
	// IPv4 /24 or IPv6 /48, and NetworkRate how many may start there in a second. A MinDelay below
	// 1/NetworkRate allows one request each MinDelay. 0: no limit.
	NetworkRequests int     `toml:"network_requests"`
	NetworkRate     float64 `toml:"network_rate"`
	// AllowNet lists address ranges that may be dialled although they are not public.
	AllowNet []netip.Prefix `toml:"allow_net"`
	// FetchWorkers bounds the concurrent fetches.
	FetchWorkers int `toml:"fetch_workers"`
	// Resolve maps host names in lower case to addresses, which replace DNS.
	Resolve map[string][]netip.Addr `toml:"resolve"`
	// Resolver holds the name servers in order of preference, each with the syntax of
	// resolve.ParseServer; empty: those of /etc/resolv.conf.
	Resolver []string `toml:"resolver"`
	// DNSRate is the maximum number of queries per second to one name server.
	DNSRate int `toml:"dns_rate"`
	// Timeout bounds one request up to the end of the head of the response. A body may take longer
	// if it comes fast enough (fetch.Config.SteadyRate).
	Timeout Duration `toml:"timeout"`
	// Patience is how long a host may answer nothing, while the network is up, before its URLs are
	// given up. One-shot crawls have their own.
	Patience Duration `toml:"patience"`
	// CheckReports is the share of the pages that other peers fetch for this one, which this peer
	// fetches again to check their reports. The first ones of each peer always are; 0: none is. It
	// holds in networks that everyone may join.
	CheckReports float64 `toml:"check_reports"`
	// Hours is the time of day in which this peer fetches.
	Hours Hours `toml:"hours"`
	// PagesPerDay bounds the requests of this peer to web servers in any 24 hours, and Bandwidth
	// the average bytes per second of their responses; 0: no limit (crawl/quota). Other peers
	// with free capacity get the rest of the work.
	PagesPerDay int64 `toml:"pages_per_day"`
	Bandwidth   Size  `toml:"bandwidth"`
	// Proxy is the URL of an HTTP or SOCKS5 proxy for fetches; "": none.
	Proxy string `toml:"proxy"`
	// HTTP2 offers HTTP/2 to servers. AcceptInvalidTLS accepts servers with invalid certificates.
	HTTP2            bool `toml:"http2"`
	AcceptInvalidTLS bool `toml:"accept_invalid_tls"`
	// CAFiles are paths of files with certificates in PEM, relative to the home, of authorities
	// that are trusted in addition to those of the system.
	CAFiles []string `toml:"ca_files"`
	// Crawllet is the path of the reference crawllet, relative to the home, which fetches pages of
	// sites that run crawllets; "": none.
	Crawllet string `toml:"crawllet"`
	// MinFree is the free space of the disk below which nothing is fetched.
	MinFree Size `toml:"min_free"`
	// Shares divides the workers while there is more work than they can do.
	Shares Shares `toml:"shares"`
}

// Shares is the section [crawl.shares]: the shares of the kinds of work in the fetches when
// there is too much of each (Malet 2009, section 4.2.3). Only their ratio matters.
type Shares struct {
	Own         float64 `toml:"own"`         // hosts that this peer found and owns
	Assigned    float64 `toml:"assigned"`    // hosts that other peers handed over
	Estimations float64 `toml:"estimations"` // single pages at the request of other peers
}

func (s Shares) check(f *faults) {
	for name, v := range map[string]float64{"own": s.Own, "assigned": s.Assigned,
		"estimations": s.Estimations} {
		if !(v > 0 && v <= 1000) {
			f.addf("crawl.shares.%s is %v, want more than 0 and at most 1000", name, v)
		}
	}
}

// Overlay is the section [overlay]: how this peer works with other peers.
type Overlay struct {
	// A batch of URLs is sent to the owner when it has BatchMaxURLs URLs, or when its oldest URL
	// is BatchMaxAge old.
	BatchMaxURLs int      `toml:"batch_max_urls"`
	BatchMaxAge  Duration `toml:"batch_max_age"`
	// A subnet without owner is claimed when UnclaimedURLs of its URLs are waiting, or when the
	// oldest of them has waited for UnclaimedAge.
	UnclaimedURLs int      `toml:"unclaimed_urls"`
	UnclaimedAge  Duration `toml:"unclaimed_age"`
	// LeaseTTL is how long a lease is valid without renewal.
	LeaseTTL Duration `toml:"lease_ttl"`
	// Settle is the time between publishing a claim and reading it back, in which concurrent
	// claims reach the peers that hold the record.
	Settle Duration `toml:"settle"`
	// Replicas is the number of other peers that keep a copy of each subnet of this peer, and
	// take it over if this peer fails.
	Replicas int `toml:"replicas"`
}

func (c Crawl) check(f *faults) {
	between(f, "crawl.min_delay", c.MinDelay.Duration, 0, time.Hour)
	between(f, "crawl.address_requests", c.AddressRequests, 1, 64)
	between(f, "crawl.network_requests", c.NetworkRequests, 0, MaxFetchWorkers)
	between(f, "crawl.network_rate", c.NetworkRate, 0, 1e6)
	between(f, "crawl.dns_rate", c.DNSRate, 1, 100_000)
	if _, err := resolve.ParseServers(c.Resolver); err != nil {
		f.addf("crawl.resolver: %w", err)
	}
	between(f, "crawl.fetch_workers", c.FetchWorkers, 1, MaxFetchWorkers)
	between(f, "crawl.timeout", c.Timeout.Duration, 10*time.Millisecond, time.Hour)
	between(f, "crawl.check_reports", c.CheckReports, 0, 1)
	between(f, "crawl.patience", c.Patience.Duration, time.Second, 365*24*time.Hour)
	between(f, "crawl.min_free", int64(c.MinFree), 0, 1<<60)
	between(f, "crawl.pages_per_day", c.PagesPerDay, 0, 1e12)
	between(f, "crawl.bandwidth", int64(c.Bandwidth), 0, 1e12)
	c.Shares.check(f)
	if c.Hours != "" && c.Hours != Never {
		if _, _, err := c.Hours.span(); err != nil {
			f.addf("crawl.hours: %w", err)
		}
	}
	if c.Proxy != "" {
		if err := checkProxy(c.Proxy); err != nil {
			f.addf("crawl.proxy: %w", err)
		}
	}
	for _, p := range c.AllowNet {
		if !p.IsValid() {
			f.addf("crawl.allow_net holds an empty range")
		} else if p.Addr().Is4In6() { // no address that is contacted has this form
			f.addf("crawl.allow_net: %v is a range of IPv4 addresses, write it without ::ffff:", p)
		}
	}
	for host, addrs := range c.Resolve {
		if !isHost(host) {
			f.addf("crawl.resolve: %q is not a host name", clip(host))
		}
		if len(addrs) == 0 {
			f.addf("crawl.resolve: %s has no address", clip(host))
		}
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool {
			return !a.IsValid() || a.Zone() != ""
		}) {
			f.addf("crawl.resolve: %s has an invalid address", clip(host))
		}
	}
}

// checkProxy does not repeat s, which may contain a password.
func checkProxy(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"},
		u.Scheme) {
		return errors.New(
			"want a URL such as \"http://127.0.0.1:3128\" or \"socks5://127.0.0.1:1080\"")
	}
	return nil
}

func (o Overlay) check(f *faults) {
	between(f, "overlay.batch_max_urls", o.BatchMaxURLs, 1, 10_000)
	between(f, "overlay.batch_max_age", o.BatchMaxAge.Duration, time.Millisecond, 10*time.Minute)
	between(f, "overlay.unclaimed_urls", o.UnclaimedURLs, 1, 10_000)
	between(f, "overlay.unclaimed_age", o.UnclaimedAge.Duration, 0, time.Hour)
	between(f, "overlay.lease_ttl", o.LeaseTTL.Duration, 10*time.Second, 24*time.Hour)
	between(f, "overlay.settle", o.Settle.Duration, 0, time.Minute)
	between(f, "overlay.replicas", o.Replicas, 0, 4)
}
