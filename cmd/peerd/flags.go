package main

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"peerd/node/config"
)

// crawlFlags are the options about web servers, which run and crawl share.
type crawlFlags struct {
	allowNet []string
	resolve  []string
	minDelay time.Duration
	workers  int
	warc     bool
}

func (f *crawlFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.allowNet, "allow-net", nil, "address `range` that may be fetched from although it is not public, such as 192.168.0.0/16; repeatable")
	cmd.Flags().StringArrayVar(&f.resolve, "resolve", nil, "fixed address of a host, as `HOST=IP`, in place of DNS; repeatable, also for one host")
	cmd.Flags().DurationVar(&f.minDelay, "min-delay", 0, "least `time` between two requests to a host or address (default 1s)")
	cmd.Flags().IntVar(&f.workers, "workers", 0, "how many `fetches` may be in flight, over all hosts (default 64)")
	cmd.Flags().BoolVar(&f.warc, "warc", false, "keep every answer in WARC files, in the folder archive of the home")
}

// apply puts the options that were given over c: a list replaces the list, an
// address of a host those of that host.
func (f *crawlFlags) apply(cmd *cobra.Command, cfg *config.Config) error {
	c := &cfg.Crawl
	if cmd.Flags().Changed("workers") {
		if f.workers < 1 || f.workers > config.MaxFetchWorkers {
			return usagef(cmd, "--workers %d: want 1 to %d", f.workers, config.MaxFetchWorkers)
		}
		c.FetchWorkers = f.workers
	}
	if cmd.Flags().Changed("warc") {
		cfg.Archive.Enabled = f.warc
	}
	if cmd.Flags().Changed("allow-net") {
		c.AllowNet = nil
	}
	for _, s := range f.allowNet {
		p, err := config.ParseNet(s)
		if err != nil {
			return usagef(cmd, "--allow-net: %w", err)
		}
		c.AllowNet = append(c.AllowNet, p)
	}
	given := map[string][]netip.Addr{}
	for _, s := range f.resolve {
		host, addr, err := config.ParseResolve(s)
		if err != nil {
			return usagef(cmd, "--resolve: %w", err)
		}
		given[host] = append(given[host], addr)
	}
	for host, addrs := range given {
		if c.Resolve == nil {
			c.Resolve = map[string][]netip.Addr{}
		}
		c.Resolve[host] = addrs
	}
	if cmd.Flags().Changed("min-delay") {
		if f.minDelay < 0 {
			return usagef(cmd, "--min-delay %s: want 0 or more", f.minDelay)
		}
		c.MinDelay = config.Duration{Duration: f.minDelay}
	}
	return nil
}

// jsonFlag adds --json.
func jsonFlag(cmd *cobra.Command, on *bool) {
	cmd.Flags().BoolVar(on, "json", false, "print JSON")
}
