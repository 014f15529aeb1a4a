package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/experiment"
	"peerd/lab/results"
	"peerd/node/config"
)

type resultsOptions struct {
	file, data    string
	only          []string
	minutes       float64
	virtual, list bool
}

func newResultsCommand() *cobra.Command {
	var o resultsOptions
	cmd := &cobra.Command{
		Use:   "results",
		Short: "Print the published figures again, with date and machine",
		Long: `Runs the commands that a file lists, each with the document that publishes what it
prints, and prints a page in Markdown. It runs in the root of the repository. Figures
that need data files which are not in --data are skipped, and named.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runResults(cmd, &o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.file, "file", results.File, "`file` with the list")
	f.StringVar(&o.data, "data", "", "`directory` with data files")
	f.StringSliceVar(&o.only, "only", nil, "`names` of results, separated by commas")
	f.Float64Var(&o.minutes, "minutes", 0, "only results that take at most so many `minutes`")
	f.BoolVar(&o.virtual, "virtual", false, "only results that do not depend on the machine")
	f.BoolVar(&o.list, "list", false, "print the list and run nothing")
	return cmd
}

// chosen returns the entries to run.
func (o *resultsOptions) chosen(all []results.Entry) ([]results.Entry, error) {
	for _, name := range o.only {
		if !slices.ContainsFunc(all, func(e results.Entry) bool { return e.Name == name }) {
			return nil, fmt.Errorf("%w: no result is called %q; see --list", experiment.ErrParams,
				name)
		}
	}
	return slices.DeleteFunc(all, func(e results.Entry) bool {
		return len(o.only) > 0 && !slices.Contains(o.only, e.Name) || o.virtual && e.Real ||
			o.minutes > 0 && e.Minutes > o.minutes
	}), nil
}

func runResults(cmd *cobra.Command, o *resultsOptions) error {
	all, err := results.Read(o.file)
	if err != nil {
		return fmt.Errorf("%w: %w", experiment.ErrParams, err)
	}
	if all, err = o.chosen(all); err != nil {
		return err
	}
	if o.list {
		t := cli.NewTable(cmd.OutOrStdout(), "NAME", "TIME", "MINUTES", "DOCUMENT", "COMMAND")
		for _, e := range all {
			time, command := "virtual", e.Command
			if e.Real {
				time = "real"
			}
			if e.Manual != "" {
				time, command = "-", "none: "+e.Manual
			}
			t.Row(e.Name, time, e.Minutes, e.Document, command)
		}
		return t.Flush()
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	version := fmt.Sprintf("peerd %s (%s, %s/%s), %d processors", config.Version,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	failed, err := results.Report(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), exe, version,
		o.data, all)
	switch {
	case cli.Interrupted(cmd.Context(), err):
		return fmt.Errorf("results: interrupted before the end")
	case err != nil:
		return err
	case failed > 0:
		return fmt.Errorf("results: %d of %d commands failed", failed, len(all))
	}
	return nil
}
