package main

import (
	"encoding/json"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate"
	"peerd/node/config"
)

// crawlFlags are the options about web servers that run and crawl share.
type crawlFlags struct {
	allowNet []string
	resolve  []string
	resolver []string
	minDelay time.Duration
	workers  int
	warc     bool

	checkReports float64
}

func (f *crawlFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.allowNet, "allow-net", nil,
		"address `range` that may be fetched from although it is not public, "+
			"such as 192.168.0.0/16; repeatable")
	cmd.Flags().StringArrayVar(&f.resolve, "resolve", nil,
		"address of a host, as `HOST=IP`, instead of DNS; repeatable, also for the same host")
	cmd.Flags().StringArrayVar(&f.resolver, "resolver", nil,
		"name `server`, such as 192.0.2.1 or tls://HOST, instead of those of the system; "+
			"repeatable, in order of preference")
	cmd.Flags().DurationVar(&f.minDelay, "min-delay", 0,
		"minimum `time` between two requests to a host (default 1s)")
	cmd.Flags().IntVar(&f.workers, "workers", 0,
		"maximum number of concurrent `fetches` (default 64)")
	cmd.Flags().Float64Var(&f.checkReports, "check-reports", 0,
		"`share` of the pages fetched by other peers that are fetched again, to check their "+
			"reports; 0: none (default 0.03)")
	cmd.Flags().BoolVar(&f.warc, "warc", false,
		"archive the responses in WARC files, in the folder archive of the home")
}

// apply overrides settings by the given options. A list replaces the list; addresses of a host
// replace those of that host.
func (f *crawlFlags) apply(cmd *cobra.Command, cfg *config.Config) error {
	c := &cfg.Crawl
	if cmd.Flags().Changed("workers") {
		if f.workers < 1 || f.workers > config.MaxFetchWorkers {
			return cli.Usagef(cmd, "--workers %d: want 1 to %d", f.workers, config.MaxFetchWorkers)
		}
		c.FetchWorkers = f.workers
	}
	if cmd.Flags().Changed("warc") {
		cfg.Archive.Enabled = f.warc
	}
	if cmd.Flags().Changed("allow-net") {
		nets, err := config.ParseNets(f.allowNet)
		if err != nil {
			return cli.Usagef(cmd, "--allow-net: %w", err)
		}
		c.AllowNet = nets
	}
	if cmd.Flags().Changed("resolver") {
		c.Resolver = f.resolver
	}
	given := map[string][]netip.Addr{}
	for _, s := range f.resolve {
		host, addr, err := config.ParseResolve(s)
		if err != nil {
			return cli.Usagef(cmd, "--resolve: %w", err)
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
			return cli.Usagef(cmd, "--min-delay %s: want 0 or more", f.minDelay)
		}
		c.MinDelay = config.Duration{Duration: f.minDelay}
	}
	if cmd.Flags().Changed("check-reports") {
		if !(f.checkReports >= 0 && f.checkReports <= 1) {
			return cli.Usagef(cmd, "--check-reports %v: want 0 to 1", f.checkReports)
		}
		c.CheckReports = f.checkReports
	}
	return nil
}

// emulateFlag is a hidden flag of processes that peerd-lab starts: an emulated network, as JSON.
type emulateFlag struct{ to **emulate.Spec }

func (f emulateFlag) Set(text string) error {
	*f.to = &emulate.Spec{}
	return json.Unmarshal([]byte(text), *f.to)
}

func (emulateFlag) String() string { return "" }
func (emulateFlag) Type() string   { return "json" }
