package config

import (
	"errors"
	"net/netip"
	"net/url"
	"slices"
	"time"
)

// MaxFetchWorkers bounds Crawl.FetchWorkers.
const MaxFetchWorkers = 4096

// Crawl is the section [crawl]: how this peer treats web servers.
type Crawl struct {
	// MinDelay is the least time between the end of a request to a host, or to
	// an address, and the start of the next one. The floor of the network's
	// profile and what a server asks for hold too; the longest counts.
	MinDelay Duration `toml:"min_delay"`
	// AllowNet lists address ranges that are dialled although they are not
	// public.
	AllowNet []netip.Prefix `toml:"allow_net"`
	// FetchWorkers bounds the fetches in flight, over all hosts.
	FetchWorkers int `toml:"fetch_workers"`
	// Resolve fixes the addresses of hosts, in place of DNS. Host names are in
	// lower case.
	Resolve map[string][]netip.Addr `toml:"resolve"`
	// Timeout bounds one request, from the first packet to the last.
	Timeout Duration `toml:"timeout"`
	// Hours are the times of day at which this peer fetches.
	Hours Hours `toml:"hours"`
	// PagesPerDay bounds the requests of this peer to web servers in any 24 hours, and
	// Bandwidth the bytes a second of their answers, on average; 0 is no bound
	// (crawl/quota). With more to do than that it gives work to others that have room.
	PagesPerDay int64 `toml:"pages_per_day"`
	Bandwidth   Size  `toml:"bandwidth"`
	// Proxy is the URL of an HTTP or SOCKS5 proxy through which pages are
	// fetched; "" is none.
	Proxy string `toml:"proxy"`
	// HTTP1Only does not speak HTTP/2, so that an archive has the heads as they
	// were; AcceptInvalidTLS takes servers whose certificate is not valid.
	HTTP1Only        bool `toml:"http1_only"`
	AcceptInvalidTLS bool `toml:"accept_invalid_tls"`
	// MinFree is the free space on the disk below which nothing is fetched.
	MinFree Size `toml:"min_free"`
	// Shares divide the workers while there is more work than they can do.
	Shares Shares `toml:"shares"`
}

// Shares is the section [crawl.shares]: how many of the fetches the kinds of
// work get when there is too much of each (Malet 2009, section 4.2.3). Only
// their ratio counts.
type Shares struct {
	Own         float64 `toml:"own"`         // sites that this peer has found and keeps
	Assigned    float64 `toml:"assigned"`    // sites that other peers have handed over
	Estimations float64 `toml:"estimations"` // single pages at other peers' request
}

func (s Shares) check(f *faults) {
	for name, v := range map[string]float64{"own": s.Own, "assigned": s.Assigned, "estimations": s.Estimations} {
		if !(v > 0 && v <= 1000) {
			f.addf("crawl.shares.%s is %v, want more than 0 and at most 1000", name, v)
		}
	}
}

// Overlay is the section [overlay]: how this peer deals with the others.
type Overlay struct {
	// BatchMaxURLs and BatchMaxAge say when a batch of URLs leaves for the
	// owner: when it has so many, or when its oldest URL is so old.
	BatchMaxURLs int      `toml:"batch_max_urls"`
	BatchMaxAge  Duration `toml:"batch_max_age"`
	// NurseryURLs and NurseryAge say when an unowned subnet is claimed: when so
	// many of its URLs wait, or when the oldest of them waited so long.
	NurseryURLs int      `toml:"nursery_urls"`
	NurseryAge  Duration `toml:"nursery_age"`
	// LeaseTTL is how long a lease holds without renewal.
	LeaseTTL Duration `toml:"lease_ttl"`
	// Settle is the wait between publishing a claim and reading it back, so
	// that claims made at once meet at the peers that keep the record.
	Settle Duration `toml:"settle"`
	// Shadows is how many other peers hold a copy of each subnet of this one, and
	// take it over when this peer vanishes.
	Shadows int `toml:"shadows"`
}

func (c Crawl) check(f *faults) {
	f.lasting("crawl.min_delay", c.MinDelay, 0, time.Hour)
	between(f, "crawl.fetch_workers", c.FetchWorkers, 1, MaxFetchWorkers)
	f.lasting("crawl.timeout", c.Timeout, 10*time.Millisecond, time.Hour)
	between(f, "crawl.min_free", int64(c.MinFree), 0, 1<<60)
	between(f, "crawl.pages_per_day", c.PagesPerDay, 0, 1e12)
	between(f, "crawl.bandwidth", int64(c.Bandwidth), 0, 1e12)
	c.Shares.check(f)
	if c.Hours != "" {
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
		}
	}
	for host, addrs := range c.Resolve {
		if !isHost(host) {
			f.addf("crawl.resolve: %q is no host name", clip(host))
		}
		if len(addrs) == 0 {
			f.addf("crawl.resolve: %s has no address", clip(host))
		}
		if slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !a.IsValid() || a.Zone() != "" }) {
			f.addf("crawl.resolve: %s has an address that is none", clip(host))
		}
	}
}

// checkProxy does not repeat s: it may hold a password.
func checkProxy(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Hostname() == "" || !slices.Contains([]string{"http", "https", "socks5"}, u.Scheme) {
		return errors.New("want a URL such as \"http://127.0.0.1:3128\" or \"socks5://127.0.0.1:1080\"")
	}
	return nil
}

func (o Overlay) check(f *faults) {
	between(f, "overlay.batch_max_urls", o.BatchMaxURLs, 1, 10_000)
	f.lasting("overlay.batch_max_age", o.BatchMaxAge, time.Millisecond, 10*time.Minute)
	between(f, "overlay.nursery_urls", o.NurseryURLs, 1, 10_000)
	f.lasting("overlay.nursery_age", o.NurseryAge, 0, time.Hour)
	f.lasting("overlay.lease_ttl", o.LeaseTTL, 10*time.Second, 24*time.Hour)
	f.lasting("overlay.settle", o.Settle, 0, time.Minute)
	between(f, "overlay.shadows", o.Shadows, 0, 4)
}
