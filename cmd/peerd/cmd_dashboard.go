package main

import (
	"fmt"
	"os/exec"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newDashboardCommand() *cobra.Command {
	var open bool
	cmd := onPeer(&cobra.Command{
		Use:   "dashboard [--home DIR]",
		Short: "Print an address at which a browser shows the running peer",
		Long: `Prints an address at which a browser on this machine shows the running peer. The
address contains a code that is valid for two minutes and for one browser, which can then
read, but change nothing, for a day or until the peer stops.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, c *admin.Client, _ []string) error {
		url, err := c.DashboardURL(cmd.Context())
		if err != nil {
			return err
		}
		if open {
			if err := exec.CommandContext(cmd.Context(), "xdg-open", url).Run(); err != nil {
				return fmt.Errorf("open a browser: %w; run it without --open", err)
			}
			return nil
		}
		_, err = fmt.Fprintln(cmd.OutOrStdout(), url)
		return err
	})
	cmd.Flags().BoolVar(&open, "open", false,
		"open a browser with xdg-open instead; other users of the machine may see its arguments")
	return cmd
}
