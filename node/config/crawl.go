package config

import (
	"net/netip"
	"slices"
	"time"
)

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
}

func (c Crawl) check(f *faults) {
	f.lasting("crawl.min_delay", c.MinDelay, 0, time.Hour)
	between(f, "crawl.fetch_workers", c.FetchWorkers, 1, 4096)
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

func (o Overlay) check(f *faults) {
	between(f, "overlay.batch_max_urls", o.BatchMaxURLs, 1, 10_000)
	f.lasting("overlay.batch_max_age", o.BatchMaxAge, time.Millisecond, 10*time.Minute)
	between(f, "overlay.nursery_urls", o.NurseryURLs, 1, 10_000)
	f.lasting("overlay.nursery_age", o.NurseryAge, 0, time.Hour)
	f.lasting("overlay.lease_ttl", o.LeaseTTL, 10*time.Second, time.Hour)
	f.lasting("overlay.settle", o.Settle, 0, time.Minute)
}
