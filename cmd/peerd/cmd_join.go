package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/join"
)

func newJoinCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "join [--home DIR] LINE",
		Short: "Join a network by a line that \"peerd invite\" printed",
		Long: `Creates the home, unless it exists, and makes its peer a member of the network in
LINE, the line that "peerd invite" printed at another peer. It asks that peer for the rules of the
network, checks them against LINE, prints what they mean, and saves them in the home. If
something fails, the same command can be repeated.`,
		Args: cli.Args(1, "want one argument, the line that \"peerd invite\" printed"),
		RunE: func(cmd *cobra.Command, args []string) error { return runJoin(cmd, dir, args[0]) },
	}
	homeFlag(cmd, &dir)
	return cmd
}

func runJoin(cmd *cobra.Command, dir, text string) error {
	line, err := join.ParseLine(text)
	if err != nil {
		return cli.Usagef(cmd, "%w", err)
	}
	home, err := initHome(cmd, dir)
	if err != nil {
		return err
	}
	// A quiet logger: libraries would log failed connections, which the error tells.
	if _, err := cli.NewLogger(cmd, 0); err != nil {
		return err
	}
	p, err := join.Join(cmd.Context(), home, line)
	if err != nil {
		return err
	}
	w := cmd.OutOrStdout()
	if err := explain(w, p); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\nJoined. Set contact in %s, then:\n\n  peerd run%s\n",
		home.ConfigFile(), homeOption(dir))
	return err
}
