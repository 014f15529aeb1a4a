package main

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/testnet"
	"peerd/node/config"
)

func newSiteCommand() *cobra.Command {
	var o testnet.SiteOptions
	cmd := &cobra.Command{
		Use:   "site --of N (--number I --listen IP:PORT | --net PREFIX)",
		Short: "Serve one synthetic web site, for a testnet of containers",
		Long: `Serves site I of the N sites that the seed makes, until a signal. Processes
with the same --seed, --of, --pages and port serve sites that link to each
other by name: site-00.test, site-01.test and so on.

With --net, a container of docker-compose.yml gives the site its number, and the
site gives the container an address, which needs CAP_NET_ADMIN.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSite(cmd, o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.Number, "number", 0, "number of the site, from 0")
	f.TextVar(&o.Net, "net", netip.Prefix{}, "`network` of a container, an IPv4 /16, in which "+
		"the site takes its address; its number is that of the container in its service")
	f.Uint64Var(&o.Distances, "distances", 0, "with --net: seed of the distances between "+
		"containers, which the first site changes for \"peerd testnet ctl\"; 0: none")
	f.IntVar(&o.Of, "of", 1, "number of sites")
	f.IntVar(&o.Pages, "pages", 100, "number of pages, over all sites")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything that is random")
	f.StringVar(&o.Listen, "listen", "", "`ip:port` to serve on; the port is that of all sites")
	f.DurationVar(&o.MinDelay, "min-delay", 20*time.Millisecond,
		"gap between two requests of a crawler that the audit of the log demands")
	f.DurationVar(&o.Delay, "delay", 40*time.Millisecond, "median time to answer")
	f.StringVar(&o.LogDir, "log-dir", "", "`directory` for audit.json and hits.jsonl, which are "+
		"written at the end")
	f.Var(emulateFlag{&o.Emulate}, "emulate", "serve all sites of an emulated network")
	_ = f.MarkHidden("emulate") // it exists
	f.StringVar(&o.Bind, "site-bind", "", "`host:port` that shows the log of requests")
	return cmd
}

func runSite(cmd *cobra.Command, o testnet.SiteOptions) error {
	if err := checkSite(cmd, o); err != nil {
		return err
	}
	var err error
	if o.Logger, err = cli.NewLogger(cmd, slog.LevelInfo); err != nil {
		return err
	}
	return cli.UnlessInterrupted(cmd.Context(), testnet.ServeSite(cmd.Context(), o))
}

func checkSite(cmd *cobra.Command, o testnet.SiteOptions) error {
	switch {
	case o.Of < 1:
		return cli.Usagef(cmd, "--of %d: want 1 or more", o.Of)
	case o.Number < 0 || o.Number >= o.Of:
		return cli.Usagef(cmd, "--number %d: want 0 to %d", o.Number, o.Of-1)
	case o.Pages < o.Of:
		return cli.Usagef(cmd, "--pages %d: want at least one a site, %d", o.Pages, o.Of)
	case o.Listen == "" && !o.Net.IsValid() && o.Emulate == nil:
		return cli.Usagef(cmd, "--listen is missing, or --net")
	case o.MinDelay < 0 || o.Delay < 0:
		return cli.Usagef(cmd, "--min-delay %s, --delay %s: want 0 or more", o.MinDelay, o.Delay)
	}
	if o.Listen != "" {
		if err := config.CheckHostPort(o.Listen); err != nil {
			return cli.Usagef(cmd, "--listen: %w", err)
		}
	}
	if o.Bind != "" {
		if err := config.CheckHostPort(o.Bind); err != nil {
			return cli.Usagef(cmd, "--site-bind: %w", err)
		}
	}
	return nil
}
