package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/experiment"
	"peerd/lab/runner"
)

func newExperimentCommand() *cobra.Command {
	return cli.NewGroup("experiment", "Run a crawl of many peers on a list of machines",
		`Runs a crawl of many peers on machines that are reached by ssh, in containers, or
as processes of this machine. A TOML file describes the machines, the network, the seeds and what
happens to the peers; docs/experiments.md explains it.`,
		newExperimentRunCommand(), newExperimentCheckCommand())
}

// readExperiment reads the file of an experiment; nothing was tried if it fails.
func readExperiment(name string) (*runner.File, error) {
	f, err := runner.Read(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", experiment.ErrParams, err)
	}
	return f, nil
}

func newExperimentRunCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run an experiment, or continue it",
		Long: `Runs the experiment in FILE: checks the machines, distributes the program, starts
the peers, gives the seeds, follows the scenario, collects the logs, and writes a report. After an
interruption or a crash, the same command continues where it was. Peers run on meanwhile.`,
		Args: cli.Args(1, "want one argument, the file of the experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readExperiment(args[0])
			if err != nil {
				return err
			}
			out = cmp.Or(out, f.Name+".out")
			if err := experiment.CheckDir(out); err != nil {
				return err
			}
			return runner.Run(cmd.Context(), f, out, cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&out, "out", "",
		"`directory` for the state, the logs and the report (default: NAME.out)")
	return cmd
}

func newExperimentCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Only look at the machines of an experiment",
		Long: `Measures load, clock, round-trip time and bandwidth of all machines in FILE, and says
which of them would be left out. It leaves nothing there.`,
		Args: cli.Args(1, "want one argument, the file of the experiment"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readExperiment(args[0])
			if err != nil {
				return err
			}
			t := cli.NewTable(cmd.OutOrStdout(), "machine", "system", "load", "clock", "RTT",
				"bandwidth", "left out because")
			bad := 0
			for _, c := range runner.Check(cmd.Context(), f) {
				why := ""
				if c.Fault != nil {
					bad++
					why = strings.ReplaceAll(c.Fault.Error(), "\n", "; ")
				}
				p := c.Probe
				t.Row(c.Name, p.System, p.Load, fmt.Sprintf("%+.1f s", p.Clock),
					fmt.Sprintf("%.1f ms", p.RTT), fmt.Sprintf("%.2f MB/s", p.Bandwidth/1e6), why)
			}
			if err := t.Flush(); err != nil {
				return err
			}
			if bad == len(f.Machines) {
				return errors.New("experiment: no machine can take part")
			}
			return nil
		},
	}
}
