package main

import (
	"github.com/spf13/cobra"

	"peerd/node"
	"peerd/node/config"
)

func newGetCommand() *cobra.Command {
	var head bool
	cmd := onHome(&cobra.Command{
		Use:   "get [--home DIR] URL",
		Short: "Print an archived page as it was",
		Long: `Prints the body of the newest response for URL in the archive of this peer, without
content coding. The peer may run or not. Other peers have their own archives: a page that
another one has fetched is not here.`,
		Args: oneURL,
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		a, err := node.Get(cmd.Context(), home, args[0])
		if err != nil {
			return err
		}
		if head {
			if _, err := cmd.OutOrStdout().Write(a.Head); err != nil {
				return err
			}
		}
		_, err = cmd.OutOrStdout().Write(a.Body)
		return err
	})
	cmd.Flags().BoolVar(&head, "head", false, "print the status line and the header first")
	return cmd
}
