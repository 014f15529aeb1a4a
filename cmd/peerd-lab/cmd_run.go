package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/experiment"
	"peerd/lab/experiment/list"
)

type runOptions struct {
	experiment.Params
	out  string
	json bool
}

func newRunCommand() *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run an experiment, or the runs that a file lists",
		Long: `Runs the experiment of that name, or all runs of a TOML file:

  [[run]]
  experiment = "malet-5.7"
  peers = 100              # the flags, with _ for -
  matrix = "rtt.tsv.gz"    # relative to the file

Flags override the keys of the file. The tables are written to stdout;
with --out a directory gets results.json, CSV and SVG files and report.html.
With --json the rows of the experiment's first table come one per line, as they
are found; with --intervals at the end.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 1 && len(o.World) == 0 {
				return cli.Usagef(cmd,
					"want the name of one experiment, or one file, but got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.World = append(o.World, args[1:]...) // --world A B C, after expansion by the shell
			return runExperiments(cmd, args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Matrix, "matrix", "", "`file` with a square matrix of round-trip times in ms")
	f.StringVar(&o.Times, "times", "", "`file` with response times of users and servers in ms")
	f.StringSliceVar(&o.World, "world", nil,
		"`files` with worlds of registries; repeatable, or separated by commas or blanks")
	f.StringVar(&o.out, "out", "", "`directory` for results.json, CSV, SVG and report.html")
	f.Uint64Var(&o.Seed, "seed", 1, "first seed")
	f.IntVar(&o.Seeds, "seeds", 0,
		"`number` of runs, with successive seeds (0: the experiment's default)")
	f.IntVar(&o.Peers, "peers", 0, "`number` of peers (0: the experiment's default)")
	f.IntVar(&o.Sites, "sites", 0, "`number` of web servers (0: the experiment's default)")
	f.IntVar(&o.Rounds, "rounds", 0, "`number` of rounds (0: the experiment's default)")
	f.IntSliceVar(&o.K, "k", nil, "`numbers` of estimations, separated by commas")
	f.Float64SliceVar(&o.Threshold, "threshold", nil,
		"probing thresholds in `ms`, separated by commas")
	f.Float64Var(&o.DelayMS, "delay-ms", 0,
		"median delay of a web server in `ms`, for times derived from a matrix")
	f.Float64Var(&o.RTTs, "rtts", 0, "round trips of a page, for times derived from a matrix")
	f.BoolVar(&o.Quick, "quick", false, "do a fraction of the work, as a test")
	f.BoolVar(&o.Intervals, "intervals", false,
		"run each seed (5 if --seeds is 0) or world by itself; print means and 95 % intervals")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

// runsOf returns the runs of name, which is an experiment or a file.
func runsOf(cmd *cobra.Command, name string, o *runOptions) ([]experiment.Run, error) {
	e, err := experiment.Find(list.Experiments(), name)
	if err == nil {
		return []experiment.Run{{Experiment: e, Params: o.Params}}, nil
	}
	info, statErr := os.Stat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist) && !strings.HasSuffix(name, ".toml"):
		return nil, err
	case statErr != nil:
		return nil, fmt.Errorf("%w: %w", experiment.ErrParams, statErr)
	case info.IsDir():
		return nil, fmt.Errorf(
			"%w: %s is a directory, want a TOML file or the name of an experiment",
			experiment.ErrParams, name)
	}
	runs, err := experiment.ReadRuns(list.Experiments(), name)
	for i := range runs {
		o.over(cmd, &runs[i].Params)
	}
	return runs, err
}

// over overrides p with the flags that were set.
func (o *runOptions) over(cmd *cobra.Command, p *experiment.Params) {
	for name, put := range map[string]func(){
		"matrix": func() { p.Matrix = o.Matrix }, "times": func() { p.Times = o.Times },
		"world": func() { p.World = o.World },
		"seed":  func() { p.Seed = o.Seed }, "seeds": func() { p.Seeds = o.Seeds },
		"peers": func() { p.Peers = o.Peers },
		"sites": func() { p.Sites = o.Sites }, "rounds": func() { p.Rounds = o.Rounds },
		"k":         func() { p.K = o.K },
		"threshold": func() { p.Threshold = o.Threshold },
		"delay-ms":  func() { p.DelayMS = o.DelayMS },
		"rtts":      func() { p.RTTs = o.RTTs }, "quick": func() { p.Quick = o.Quick },
		"intervals": func() { p.Intervals = o.Intervals },
	} {
		if cmd.Flags().Changed(name) {
			put()
		}
	}
}

func runExperiments(cmd *cobra.Command, name string, o *runOptions) error {
	runs, err := runsOf(cmd, name, o)
	if err != nil {
		return err
	}
	for _, r := range runs { // check all before the first one starts, which may take hours
		if err := r.Check(); err != nil {
			return err
		}
	}
	if o.out != "" {
		if err := experiment.CheckDir(o.out); err != nil {
			return err
		}
	}
	var results []*experiment.Result
	var writeErr error
	progress := experiment.NewProgress(cmd.ErrOrStderr())
	for _, r := range runs {
		var stream func(experiment.Row)
		if o.json {
			stream = func(row experiment.Row) {
				if writeErr == nil {
					writeErr = cli.PrintJSON(cmd.OutOrStdout(), row)
				}
			}
		}
		progress.Begin(r.Experiment.Name)
		res, err := r.Do(cmd.Context(), stream, progress.Show)
		switch {
		case cli.Interrupted(cmd.Context(), err):
			return fmt.Errorf("%s: interrupted before the end", r.Experiment.Name)
		case err != nil:
			return err
		case writeErr != nil:
			return writeErr
		}
		progress.End("done")
		results = append(results, res)
		if !o.json {
			if err := experiment.WriteText(cmd.OutOrStdout(), res); err != nil {
				return err
			}
		}
		if o.out != "" { // after each run, so that an interrupted list has results
			if err := experiment.WriteDir(o.out, results); err != nil {
				return err
			}
		}
	}
	return nil
}
