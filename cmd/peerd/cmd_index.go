package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
)

func newIndexCommand() *cobra.Command {
	var rebuild bool
	cmd := onHome(&cobra.Command{
		Use:   "index [--home DIR]",
		Short: "Index the archived pages of a home",
		Long: `Adds the pages of the archive that are not indexed yet to the index of the home, so
that "peerd search" finds them. The peer must not run: while it runs, it does this itself if
search.enabled is set. It can be interrupted, and continues when it is called again.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		log, err := cli.NewLogger(cmd, slog.LevelInfo)
		if err != nil {
			return err
		}
		n, err := node.BuildIndex(cmd.Context(), home, rebuild, log, func(pages int) {
			log.Info("indexed pages", "pages", pages)
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "indexed %s\n", cli.Count(n, "page"))
		return err
	})
	cmd.Flags().BoolVar(&rebuild, "rebuild", false, "delete the index first")
	return cmd
}
