package main

import (
	"os"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/chaos"
	"peerd/lab/compare"
	"peerd/lab/sim"
	"peerd/lab/soak"
)

// newChildCommands returns the hidden commands that other commands start as processes of their
// own.
func newChildCommands() []*cobra.Command {
	child := func(name string, run func(cmd *cobra.Command, args []string) error) *cobra.Command {
		return &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: run}
	}
	return []*cobra.Command{
		child("sim-child", func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef(cmd, "got %d arguments, want options", len(args))
			}
			sim.RunSeed(args[0]) // exits the process
			return nil
		}),
		child("chaos-child", func(cmd *cobra.Command, args []string) error {
			return chaos.RunInside(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout(),
				cmd.ErrOrStderr())
		}),
		child("compare-child", func(cmd *cobra.Command, args []string) error {
			return compare.RunBare(cmd.Context(), args, cmd.OutOrStdout())
		}),
		child("soak-child", func(cmd *cobra.Command, args []string) error {
			return soak.RunChild(cmd.Context(), args, cmd.InOrStdin(), cmd.OutOrStdout())
		}),
	}
}

// self returns the command line of a hidden command of this program.
func self(name string) ([]string, error) {
	exe, err := os.Executable()
	return []string{exe, name}, err
}
