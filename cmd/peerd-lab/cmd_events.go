package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/experiment"
	"peerd/lab/live"
)

func newEventsCommand() *cobra.Command {
	return cli.NewGroup("events", "Evaluate the event logs of peers",
		`Evaluates the event logs that peers write with events.enabled; docs/events.md
describes them. Files with names that end in .gz are compressed.`,
		newEventsMergeCommand(), newEventsFiguresCommand(), newEventsExportCommand())
}

// logArgs wants one log or more.
var logArgs = cli.SomeArgs("want the names of event logs")

func newEventsMergeCommand() *cobra.Command {
	var out string
	var drift float64
	cmd := &cobra.Command{
		Use:   "merge LOG...",
		Short: "Merge the event logs of several peers, with their clocks aligned",
		Long: `Writes the events of all logs in the order of their times. The clocks of the peers
are compared by their exchanges of coordinates. Every event gets the fields self and run, and bound:
by how many microseconds its time may be wrong, or -1 if its clock could not be
compared. Prints how well the clocks could be compared to stderr.`,
		Args: logArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return runEventsMerge(cmd, args, out, drift)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "`file` for the merged log (default: stdout)")
	cmd.Flags().Float64Var(&drift, "max-drift", live.MaxDrift*1e6,
		"how fast clocks may drift apart, in `millionths`")
	return cmd
}

func runEventsMerge(cmd *cobra.Command, logs []string, out string, drift float64) (err error) {
	if !(drift > 0 && drift < 1e5) {
		return cli.Usagef(cmd, "--max-drift %v: want more than 0 and less than 100000", drift)
	}
	to := cmd.OutOrStdout()
	if out != "" {
		f, err := os.Create(out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	m, err := live.Merge(to, logs, drift/1e6)
	if errors.Is(err, live.ErrClocks) {
		return fmt.Errorf("merge: %w by more than --max-drift %v; try a larger one", err, drift)
	}
	if err != nil {
		return fmt.Errorf("merge: %w", err)
	}
	micros := func(v float64) time.Duration { return time.Duration(v * 1000).Round(10_000) }
	fmt.Fprintf(cmd.ErrOrStderr(), "merged %d events of %d runs; times are exact to %v "+
		"on average, %v at worst; %d runs could not be aligned, %d lines were skipped\n",
		m.Events, m.Runs, micros(m.Mean), micros(float64(m.Worst)), m.Unaligned, m.Skipped)
	return nil
}

func newEventsFiguresCommand() *cobra.Command {
	var out, peer, subnet string
	cmd := &cobra.Command{
		Use:   "figures LOG...",
		Short: "Draw the figures of Malet's chapter 5 from merged logs",
		Long: `Draws figures 5.1 to 5.13 of Malet (2009) from merged logs of live runs. Runs with
different strategies are compared. The tables are written to stdout; with --out a directory
gets results.json, CSV and SVG files and report.html.`,
		Args: logArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if out != "" {
				if err := experiment.CheckDir(out); err != nil {
					return err
				}
			}
			bases := make([]string, len(args))
			for i, a := range args {
				bases[i] = filepath.Base(a)
			}
			e := live.Figures(args, peer, subnet,
				"peerd-lab events figures "+strings.Join(bases, " "))
			res, err := experiment.Run{Experiment: e}.Do(cmd.Context(), nil, nil)
			if err != nil {
				return err
			}
			if err := experiment.WriteText(cmd.OutOrStdout(), res); err != nil || out == "" {
				return err
			}
			return experiment.WriteDir(out, []*experiment.Result{res})
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "", "`directory` for results.json, CSV, SVG and report.html")
	f.StringVar(&peer, "peer", "", "end of the `ID` of the peer of figures 5.1, 5.2 and 5.4 "+
		"(default: one to which an experiment did something, or the one that got most URLs)")
	f.StringVar(&subnet, "subnet", "",
		"`subnet` of figure 5.6 (default: the one with the most requests)")
	return cmd
}

func newEventsExportCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "export --parquet DIR LOG...",
		Short: "Convert event logs to Parquet files, one for each kind of events",
		Args:  logArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usagef(cmd, "want --parquet with a directory")
			}
			counts, err := live.ExportParquet(dir, args)
			if err != nil {
				return fmt.Errorf("export: %w", err)
			}
			for _, kind := range slices.Sorted(maps.Keys(counts)) {
				fmt.Fprintf(cmd.OutOrStdout(), "%s.parquet\t%d\n", kind, counts[kind])
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "parquet", "", "`directory` for the files")
	return cmd
}
