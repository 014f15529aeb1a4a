package main

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/emulate"
	"peerd/lab/testnet"
	"peerd/node/config"
)

type testnetOptions struct {
	testnet.Options
	strategies []string
	json       bool
}

func newTestnetCommand() *cobra.Command {
	var o testnetOptions
	cmd := &cobra.Command{
		Use:   "testnet",
		Short: "Run peers and web sites on this machine and measure them",
		Long: `Starts real peers and synthetic web sites in this process, on loopback
addresses, with the distances of real cities between them; lets the peers crawl
everything; and prints a table of the results. The last line says what was
shown or what fell short. It needs no root and no network.

Several strategies run one after the other over the same sites:

  peerd testnet --strategy proxy,geo,hash,random`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runTestnet(cmd, &o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.Peers, "peers", 8, fmt.Sprintf("number of peers, 1 to %d", testnet.MaxPeers))
	f.IntVar(&o.Sites, "sites", 24, fmt.Sprintf("number of web sites, 1 to %d", testnet.MaxSites))
	f.IntVar(&o.Pages, "pages", 1000,
		"number of pages, over all sites (with --scenario: as many as it takes)")
	f.Uint64Var(&o.Seed, "seed", 1, "seed of everything that is random")
	f.StringSliceVar(&o.strategies, "strategy", []string{"proxy"},
		"how owners are chosen, one or several of "+strings.Join(config.Strategies, ","))
	f.Float64Var(&o.GeoError, "geo-error", 0.3,
		"`share` of the subnets that the strategy geo locates wrongly, 0 to 1")
	f.Float64Var(&o.CDN, "cdn", 0,
		"`share` of the sites that are behind content networks (CDNs), 0 to 1")
	f.IntVar(&o.CDNs, "cdns", 5,
		fmt.Sprintf("number of content networks, 1 to %d", emulate.MaxContentNetworks))
	f.StringVar(&o.Scenario, "scenario", "", "what happens during the crawl: "+
		strings.Join(testnet.Scenarios, ", ")+" (default: nothing)")
	f.StringVar(&o.Matrix, "matrix", "",
		"`file` with a matrix of round-trip times in ms (default: some cities of the world)")
	f.StringVar(&o.Keep, "keep", "", "keep the home directories of the peers in this `directory`")
	f.StringVar(&o.SiteBind, "site-bind", "", "`host:port` that serves all sites too")
	cli.JSONFlag(cmd, &o.json)
	cmd.AddCommand(newTestnetReportCommand(), newTestnetCtlCommand())
	return cmd
}

func newTestnetReportCommand() *cobra.Command {
	var compose, asJSON bool
	most := testnet.DefaultBounds
	cmd := &cobra.Command{
		Use:   "report --compose",
		Short: "Judge a testnet of containers by the logs of its sites",
		Long: `Asks all sites of docker-compose.yml what they have seen, and prints the table of
a testnet, without the figures that only the peers have. The last line says what
was shown or what fell short; then the status is 1. It runs in a container:

  docker-compose exec site /peerd testnet report --compose`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !compose {
				return cli.Usagef(cmd, "--compose is missing: only testnets of containers go on")
			}
			r, err := testnet.Collect(cmd.Context(), most)
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(cmd.OutOrStdout(), r)
			} else {
				_, err = fmt.Fprint(cmd.OutOrStdout(), r.Table())
			}
			if err == nil && len(r.Shortfalls) > 0 {
				err = errors.New("testnet: fell short")
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&compose, "compose", false, "ask the sites of the compose project of this container")
	f.Float64Var(&most.Overlap, "max-overlap", most.Overlap,
		"largest `share` of repeated fetches that does not fall short")
	f.IntVar(&most.Early, "max-early", most.Early,
		"largest `number` of requests before their time that does not fall short")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func runTestnet(cmd *cobra.Command, o *testnetOptions) error {
	if o.Scenario != "" && !cmd.Flags().Changed("pages") {
		o.Pages = 0 // as many as it takes
	}
	if err := o.check(cmd); err != nil {
		return err
	}
	log, err := cli.NewLogger(cmd, slog.LevelError)
	if err != nil {
		return err
	}
	o.Progress, o.Logger = cmd.ErrOrStderr(), log
	var reports []testnet.Report
	for _, s := range o.strategies {
		one := o.Options
		one.Strategy = s
		if len(o.strategies) > 1 {
			fmt.Fprintf(one.Progress, "strategy %s\n", s)
			if one.Keep != "" {
				one.Keep = filepath.Join(one.Keep, s)
			}
		}
		report, err := testnet.Run(cmd.Context(), one)
		switch {
		case cli.Interrupted(cmd.Context(), err):
			return errors.New("testnet: interrupted before the end")
		case err != nil:
			return err
		case o.json:
			if err := cli.PrintJSON(cmd.OutOrStdout(), report); err != nil {
				return err
			}
		}
		reports = append(reports, report)
	}
	if o.json {
		return nil
	}
	text := reports[0].Table()
	if len(reports) > 1 {
		text = testnet.Compare(reports)
	}
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

// check returns a usage error for options that make no sense, before anything starts.
func (o *testnetOptions) check(cmd *cobra.Command) error {
	if len(o.strategies) == 0 {
		return cli.Usagef(cmd, "--strategy is empty, want some of %s",
			strings.Join(config.Strategies, ","))
	}
	for _, s := range o.strategies {
		one := o.Options
		one.Strategy = s
		if err := one.Validate(); err != nil {
			return cli.Usagef(cmd, "%w", err)
		}
	}
	if o.SiteBind != "" {
		if err := config.CheckHostPort(o.SiteBind); err != nil {
			return cli.Usagef(cmd, "--site-bind: %w", err)
		}
	}
	return nil
}
