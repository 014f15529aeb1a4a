// Command peerd-lab measures peerd: experiments on virtual time, simulations of
// faults, chaos with real processes, comparison with other crawlers, and the resources of a
// peer over a long time. This package contains only flags and output.
//
// Files:
//
//	main.go     the root command
//	cmd_*.go    one subcommand per file
//	child.go    hidden subcommands, which others start as child processes
//	testdata/   scripts that test the command line
package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/crawllet"
	"peerd/lab/experiment"
	"peerd/node/config"
)

const rootHelp = `peerd-lab measures peerd. The same seed and data give the same figures where
time is virtual:

  peerd-lab list                     # experiments: the figures of the papers
  peerd-lab run malet-5.7 --out DIR
  peerd-lab sim --seeds 20           # whole peers under schedules of faults

Real processes on this machine:

  peerd-lab chaos --scenario kills
  peerd-lab compare --root DIR
  peerd-lab soak --minutes 30

Peers on many machines, or here:

  peerd-lab experiment run FILE

Results go to stdout, messages to stderr. Exit status: 0 done, and what must hold
holds; 1 it failed, or something does not hold; 2 a wrong option, argument or
file, and nothing was tried.`

func main() {
	crawllet.Main() // the processes of sites and crawllets are this program, too
	cli.Main(newRootCommand(), experiment.ErrParams)
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "peerd-lab",
		Short:   "Experiments and measurements with peerd",
		Long:    rootHelp,
		Version: config.Version,
	}
	cli.Setup(root)
	root.AddCommand(newListCommand(), newRunCommand(), newSimCommand(), newChaosCommand(),
		newCompareCommand(), newSoakCommand(), newAttackCommand(), newParquetCommand(),
		newEventsCommand(), newExperimentCommand(), newResultsCommand())
	root.AddCommand(newChildCommands()...)
	return root
}

// ended returns the error with which a command ends: err with the name of the command, or that it
// was interrupted.
func ended(cmd *cobra.Command, err error) error {
	switch {
	case cli.Interrupted(cmd.Context(), err):
		return fmt.Errorf("%s: interrupted before the end", cmd.Name())
	case err != nil:
		return fmt.Errorf("%s: %w", cmd.Name(), err)
	}
	return nil
}
