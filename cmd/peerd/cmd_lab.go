package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"peerd/node/lab"
	"peerd/node/lab/list"
)

func newLabCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Run experiments: the figures of the papers, and comparisons on your data",
		Long: `Runs experiments on virtual time with the code that the peers run. The same seed
and data give the same figures.

  peerd lab list
  peerd lab run malet-5.7 --out report`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef(cmd, "unknown lab command %q, want list or run", args[0])
			}
			return cmd.Help()
		},
	}
	cmd.AddCommand(newLabListCommand(), newLabRunCommand())
	return cmd
}

func newLabListCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the experiments",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := cmd.OutOrStdout()
			if asJSON {
				return listLabJSON(cmd)
			}
			t := newTable(out, "NAME", "TITLE", "SOURCE", "NEEDS")
			for _, e := range list.Experiments() {
				var needs []string
				for _, n := range e.Needs {
					needs = append(needs, "--"+strings.ReplaceAll(n, "|", " or --"))
				}
				t.row(e.Name, e.Title, e.Source, strings.Join(needs, " "))
			}
			return t.flush()
		},
	}
	jsonFlag(cmd, &asJSON)
	return cmd
}

// listLabJSON prints one experiment a line.
func listLabJSON(cmd *cobra.Command) error {
	for _, e := range list.Experiments() {
		needs := e.Needs
		if needs == nil {
			needs = []string{}
		}
		err := printJSON(cmd.OutOrStdout(), struct {
			Name   string   `json:"name"`
			Title  string   `json:"title"`
			Source string   `json:"source"`
			Needs  []string `json:"needs"`
		}{e.Name, e.Title, e.Source, needs})
		if err != nil {
			return err
		}
	}
	return nil
}

type labOptions struct {
	lab.Params
	out  string
	json bool
}

func newLabRunCommand() *cobra.Command {
	var o labOptions
	cmd := &cobra.Command{
		Use:   "run NAME|FILE",
		Short: "Run an experiment, or those that a file names",
		Long: `Runs the experiment of that name, or all that a TOML file asks for:

  [[run]]
  experiment = "malet-5.7"
  peers = 100              # the flags, with _ for -
  matrix = "rtt.tsv.gz"    # relative to the file

Flags that are given go before what the file says. The tables go to stdout;
with --out a directory gets results.json, CSV and SVG files and report.html.
With --json the rows of the experiment's first table come one a line, as they
are found.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 1 && len(o.World) == 0 {
				return usagef(cmd, "want the name of one experiment, or one file, but got %d arguments", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.World = append(o.World, args[1:]...) // --world A B C, as the shell expands it
			return runLab(cmd, args[0], &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Matrix, "matrix", "", "`file` with a square matrix of round-trip times in ms")
	f.StringVar(&o.Times, "times", "", "`file` with response times of users and servers in ms")
	f.StringSliceVar(&o.World, "world", nil, "`files` with worlds of registries; repeatable, or with commas or blanks between")
	f.StringVar(&o.out, "out", "", "`directory` for results.json, CSV, SVG and report.html")
	f.Uint64Var(&o.Seed, "seed", 1, "first seed")
	f.IntVar(&o.Seeds, "seeds", 0, "`number` of runs, with successive seeds (0: the experiment's own)")
	f.IntVar(&o.Peers, "peers", 0, "`number` of peers (0: the experiment's own)")
	f.IntVar(&o.Sites, "sites", 0, "`number` of web servers (0: the experiment's own)")
	f.IntVar(&o.Rounds, "rounds", 0, "`number` of rounds (0: the experiment's own)")
	f.IntSliceVar(&o.K, "k", nil, "`numbers` of estimations, with commas between")
	f.Float64SliceVar(&o.Threshold, "threshold", nil, "probing thresholds in `ms`, with commas between")
	f.Float64Var(&o.DelayMS, "delay-ms", 0, "median delay of a web server in `ms`, for times made of a matrix")
	f.Float64Var(&o.RTTs, "rtts", 0, "round trips of a page, for times made of a matrix")
	f.BoolVar(&o.Quick, "quick", false, "a fraction of the work, to see whether it runs")
	jsonFlag(cmd, &o.json)
	return cmd
}

// labRuns are the runs that name, an experiment or a file, asks for.
func labRuns(cmd *cobra.Command, name string, o *labOptions) ([]lab.Run, error) {
	e, err := lab.Find(list.Experiments(), name)
	if err == nil {
		return []lab.Run{{Experiment: e, Params: o.Params}}, nil
	}
	info, statErr := os.Stat(name)
	switch {
	case errors.Is(statErr, fs.ErrNotExist) && !strings.HasSuffix(name, ".toml"):
		return nil, err
	case statErr != nil:
		return nil, fmt.Errorf("%w: %w", lab.ErrParams, statErr)
	case info.IsDir():
		return nil, fmt.Errorf("%w: %s is a directory, want a TOML file or the name of an experiment", lab.ErrParams, name)
	}
	runs, err := lab.ReadRuns(list.Experiments(), name)
	for i := range runs {
		o.over(cmd, &runs[i].Params)
	}
	return runs, err
}

// over puts the flags that were given over p.
func (o *labOptions) over(cmd *cobra.Command, p *lab.Params) {
	for name, put := range map[string]func(){
		"matrix": func() { p.Matrix = o.Matrix }, "times": func() { p.Times = o.Times }, "world": func() { p.World = o.World },
		"seed": func() { p.Seed = o.Seed }, "seeds": func() { p.Seeds = o.Seeds }, "peers": func() { p.Peers = o.Peers },
		"sites": func() { p.Sites = o.Sites }, "rounds": func() { p.Rounds = o.Rounds }, "k": func() { p.K = o.K },
		"threshold": func() { p.Threshold = o.Threshold }, "delay-ms": func() { p.DelayMS = o.DelayMS },
		"rtts": func() { p.RTTs = o.RTTs }, "quick": func() { p.Quick = o.Quick },
	} {
		if cmd.Flags().Changed(name) {
			put()
		}
	}
}

func runLab(cmd *cobra.Command, name string, o *labOptions) error {
	runs, err := labRuns(cmd, name, o)
	if err != nil {
		return err
	}
	for _, r := range runs { // all of them before the first takes its hours
		if err := r.Check(); err != nil {
			return err
		}
	}
	var results []*lab.Result
	var writeErr error
	progress := lab.NewProgress(cmd.ErrOrStderr())
	for _, r := range runs {
		var stream func(lab.Row)
		if o.json {
			stream = func(row lab.Row) {
				if writeErr == nil {
					writeErr = printJSON(cmd.OutOrStdout(), row)
				}
			}
		}
		progress.Begin(r.Experiment.Name)
		res, err := r.Do(cmd.Context(), stream, progress.Show)
		switch {
		case interrupted(cmd.Context(), err):
			return fmt.Errorf("lab: %s: interrupted before the end", r.Experiment.Name)
		case err != nil:
			return err
		case writeErr != nil:
			return writeErr
		}
		progress.End("done")
		results = append(results, res)
		if !o.json {
			if err := lab.WriteText(cmd.OutOrStdout(), res); err != nil {
				return err
			}
		}
		if o.out != "" { // after each, so that a long list leaves something
			if err := lab.WriteDir(o.out, results); err != nil {
				return err
			}
		}
	}
	return nil
}
