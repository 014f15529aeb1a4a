package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
	"peerd/node/replay"
)

func newReplayCommand() *cobra.Command {
	var addr string
	cmd := onHome(&cobra.Command{
		Use:   "replay [--home DIR] [--listen ADDR]",
		Short: "Show the archived pages of a home in a browser",
		Long: `Prints an address at which browsers and other programs of this machine see the
archived pages of a home, until it is interrupted. Scripts of the pages do not run. It works
whether or not the peer runs; with replay.listen in config.toml, a running peer does it itself.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		if err := replay.CheckAddr(addr); err != nil {
			return cli.Usagef(cmd, "--listen: %w", err)
		}
		log, err := cli.NewLogger(cmd, slog.LevelInfo)
		if err != nil {
			return err
		}
		return node.Replay(cmd.Context(), home, addr, log, func(url string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), url)
			return err
		})
	})
	cmd.Flags().StringVar(&addr, "listen", "127.0.0.1:0",
		"`address` of this machine; port 0 is any free one")
	return cmd
}
