package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"peerd/node/config"
	"peerd/node/testnet"
)

type testnetOptions struct {
	testnet.Options
	json bool
}

func newTestnetCommand() *cobra.Command {
	var o testnetOptions
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "Run peers and web sites on this machine and measure them",
		Long: `Starts real peers and synthetic web sites in this process, on loopback
addresses, with the distances of real cities between them; lets the peers crawl
everything; and ends with a table of what it took. It needs no root and no
network.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTestnet(cmd, &o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.Peers, "peers", 8, "number of peers")
	f.IntVar(&o.Sites, "sites", 24, "number of web sites")
	f.IntVar(&o.Pages, "pages", 1000, "number of pages, over all sites (with --scenario: as many as it takes)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything that is random")
	f.StringVar(&o.Strategy, "strategy", "proxy", "how owners are chosen: "+strings.Join(config.Strategies, ", "))
	f.Float64Var(&o.GeoError, "geo-error", 0.3, "`share` of the subnets that the strategy geo takes to be elsewhere, 0 to 1")
	f.StringVar(&o.Scenario, "scenario", "", "what happens during the crawl: "+strings.Join(testnet.Scenarios, ", ")+" (default: nothing)")
	f.StringVar(&o.Matrix, "matrix", "", "`file` with a matrix of round-trip times in ms (default: some cities of the world)")
	f.StringVar(&o.Keep, "keep", "", "keep the homes of the peers in this `directory`")
	f.StringVar(&o.SiteBind, "site-bind", "", "`host:port` on which all sites are served too")
	jsonFlag(cmd, &o.json)
	return cmd
}

func runTestnet(cmd *cobra.Command, o *testnetOptions) error {
	if err := o.check(cmd); err != nil {
		return err
	}
	log, err := newLogger(cmd, slog.LevelError)
	if err != nil {
		return err
	}
	if o.Scenario != "" && !cmd.Flags().Changed("pages") {
		o.Pages = 0 // as many as it takes
	}
	o.Progress, o.Logger = cmd.ErrOrStderr(), log
	report, err := testnet.Run(cmd.Context(), o.Options)
	switch {
	case interrupted(cmd.Context(), err):
		return fmt.Errorf("testnet: interrupted before the end")
	case err != nil:
		return err
	case o.json:
		return printJSON(cmd.OutOrStdout(), report)
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), strings.TrimRight(report.Table(), "\n"))
	return err
}

func (o *testnetOptions) check(cmd *cobra.Command) error {
	switch {
	case o.Peers < 1:
		return usagef(cmd, "--peers %d: want 1 or more", o.Peers)
	case o.Sites < 1:
		return usagef(cmd, "--sites %d: want 1 or more", o.Sites)
	case o.Scenario != "" && !slices.Contains(testnet.Scenarios, o.Scenario):
		return usagef(cmd, "--scenario %q: want one of %s", o.Scenario, strings.Join(testnet.Scenarios, ", "))
	case o.Pages < o.Sites:
		return usagef(cmd, "--pages %d: want at least one a site, %d", o.Pages, o.Sites)
	case !slices.Contains(config.Strategies, o.Strategy):
		return usagef(cmd, "--strategy %q: want one of %s", o.Strategy, strings.Join(config.Strategies, ", "))
	case !(o.GeoError >= 0 && o.GeoError <= 1):
		return usagef(cmd, "--geo-error %v: want 0 to 1", o.GeoError)
	}
	if o.SiteBind != "" {
		if err := config.CheckHostPort(o.SiteBind); err != nil {
			return usagef(cmd, "--site-bind: %w", err)
		}
	}
	return nil
}
