package main

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/chaos"
)

func newChaosCommand() *cobra.Command {
	o := chaos.DefaultOptions()
	cmd := &cobra.Command{
		Use:   "chaos",
		Short: "Kill, stop and disconnect real peers while they crawl, and check the result",
		Long: `Runs peers as separate processes, kills, stops and disconnects them by a script,
and checks the result with the logs of the sites. Cuts need network namespaces: root,
or user namespaces.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runChaos(cmd, o) },
	}
	f := cmd.Flags()
	f.IntVar(&o.Peers, "peers", o.Peers, "peers, 2 to 50")
	f.IntVar(&o.Sites, "sites", o.Sites, "`number` of sites, each in a subnet of its own, 2 to 250")
	f.IntVar(&o.Pages, "pages", o.Pages,
		"`number` of pages of all sites together; 0: as many as take about --for")
	f.DurationVar(&o.Length, "for", o.Length, "length of the script")
	f.DurationVar(&o.Cut, "cut", o.Cut,
		"length of the cut in the scenario partition, at most half of --for")
	f.DurationVar(&o.Down, "down", o.Down,
		"longest time that a peer is killed or stopped, in kills and mixed")
	f.DurationVar(&o.Gap, "gap", o.Gap, "least time between two requests to a site")
	f.DurationVar(&o.Warm, "warm", o.Warm,
		"how long the peers run before the seed is given: new ones vote in no takeover for two "+
			"minutes")
	f.DurationVar(&o.Settle, "settle", o.Settle,
		"longest time after the script until the crawl ends")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of the script and of the sites' content")
	f.StringVar(&o.Scenario, "scenario", o.Scenario, strings.Join(chaos.Scenarios, ", ")+", or all")
	f.StringVar(&o.Peerd, "peerd", "", "the `program` peerd; built from source if not given")
	f.StringVar(&o.Previous, "previous", "",
		"`program` of another version, which every other peer runs")
	f.StringVar(&o.Keep, "keep", "",
		"`directory` for the peers' home directories, logs and hits.jsonl, which are kept; "+
			"peers that still have work at the end get SIGQUIT, which writes their stacks to "+
			"their logs")
	f.StringVar(&o.Config, "config", "", "`file` with settings for every peer's config.toml")
	f.StringVar(&o.LogLevel, "log-level", o.LogLevel, "minimum level of the peers' log messages")
	f.BoolVar(&o.Loopback, "loopback", false, "run without namespaces, even if they are available")
	f.BoolVar(&o.JSON, "json", false, "print JSON, one report per line")
	return cmd
}

func runChaos(cmd *cobra.Command, o chaos.Options) (err error) {
	if err := o.Validate(); err != nil {
		return cli.Usagef(cmd, "%w", err)
	}
	if o.Self, err = self("chaos-child"); err != nil {
		return err
	}
	err = chaos.Run(cmd.Context(), o, cmd.OutOrStdout(), cmd.ErrOrStderr())
	if errors.Is(err, chaos.ErrInside) {
		return cli.ErrReported
	}
	return ended(cmd, err)
}
