package main

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/attack"
)

func newAttackNetworkCommand() *cobra.Command {
	o := attack.NetworkOptions{Honest: 14, Hostile: 6, Sites: 24, Pages: 16_000,
		Calm: 2 * time.Minute, For: 20 * time.Minute, Seed: 1}
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "network",
		Short: "Attack a whole network in every way in turn, and measure what it loses",
		Long: `Runs honest and hostile peers in this process, in an emulated wide area, while they
crawl synthetic sites, and carries out one attack after the other. A third of the hostile
peers are whole peers for which made-up pages stand for all sites; the others are members
that speak the protocols by hand. The figures are those of the honest peers. Run it with
--quiet, without attacks, for a comparison.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Logger, err = cli.NewLogger(cmd, slog.LevelError); err != nil {
				return err
			}
			o.Progress = cmd.ErrOrStderr()
			r, err := attack.Network(cmd.Context(), o)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), r)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), networkTable(r))
			return err
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.Honest, "honest", o.Honest, "honest peers")
	f.IntVar(&o.Hostile, "hostile", o.Hostile, "hostile peers")
	f.IntVar(&o.Sites, "sites", o.Sites, "web sites")
	f.IntVar(&o.Pages, "pages", o.Pages, "pages of all sites")
	f.DurationVar(&o.Calm, "calm", o.Calm, "time before the attacks")
	f.DurationVar(&o.For, "for", o.For, "time of all attacks together")
	f.BoolVar(&o.Quiet, "quiet", false, "no attacks")
	f.Uint64Var(&o.Seed, "seed", o.Seed, "seed of places and sites")
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func networkTable(r attack.NetworkReport) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-40s "+format+"\n", append([]any{name}, args...)...)
	}
	for _, s := range r.Steps {
		fmt.Fprintln(&b, s)
	}
	line("pages fetched", "%d of %d, %.2f %% twice", r.PagesFetched, r.PagesExpected, 100*r.Overlap)
	line("not fetched by their honest owner", "%d", r.Missing)
	line("without an honest owner", "%d", r.Elsewhere)
	line("subnets without an owner", "%d %v", len(r.Taken), r.Taken)
	line("subnets at a hostile peer", "%d %v", len(r.Granted), r.Granted)
	line("politeness violations", "%d", r.PolitenessViolations)
	line("robots.txt violations", "%d", r.RobotsViolations)
	line("page time, p50 and p90", "%.0f, %.0f ms", r.Download.P50, r.Download.P90)
	line("of an oracle", "%.0f, %.0f ms", r.Oracle.P50, r.Oracle.P90)
	line("peak memory of all peers", "%.0f MiB", r.PeakMiB)
	line("honest peers that found each liar", "%v, of %v that asked it, and %v that found a lie",
		r.LiarsFound, r.Asked, r.LiesFound)
	spread := func(s attack.Spread) string {
		return fmt.Sprintf("%v (median), at most %v", s.Median.Round(time.Second),
			s.Most.Round(time.Second))
	}
	line("from the first request to a lie found", "%s", spread(r.Doubted))
	line("from the first request to a liar", "%s", spread(r.Found))
	line("honest peers taken for liars", "%d", r.HonestDoubted)
	return b.String()
}
