package main

import (
	"errors"
	"os"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/cmd/peerd/top"
)

// errNoTerminal means that top has no terminal.
var errNoTerminal = errors.New("top needs a terminal; peerd status prints the state once")

func newTopCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "top [--home DIR]",
		Short: "Watch the running peer in the terminal",
		Long: `Shows the running peer in the terminal, and follows it: its health with advice,
rates, peers, subnets, the queue by host, and events. It changes nothing. The last line
shows the keys. The terminal needs 60 columns and 15 lines. With NO_COLOR in the
environment, there are no colors.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			in, isFile := cmd.InOrStdin().(*os.File)
			out, alsoFile := cmd.OutOrStdout().(*os.File)
			if !isFile || !alsoFile || !term.IsTerminal(in.Fd()) || !term.IsTerminal(out.Fd()) {
				return errNoTerminal
			}
			home, client, err := dial(cmd, dir)
			if err != nil {
				return err
			}
			if _, err := client.Status(cmd.Context()); err != nil {
				return adviseRun(home, err)
			}
			return top.Run(cmd.Context(), client, in, out, os.Environ(),
				os.Getenv("NO_COLOR") == "")
		},
	}
	homeFlag(cmd, &dir)
	return cmd
}
