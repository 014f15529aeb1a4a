package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
)

func newDenyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deny",
		Short: "Choose hosts and networks that the peer does not request",
		Long: `Edits the deny list of a peer, the file "deny" in its home. A rule is one of:

  example.org      a host
  .example.org     a domain: the host and all hosts below it
  192.0.2.0/24     a range of addresses, or a single address

A running peer reads the list before its next request; it need not be restarted. It keeps
its place in the network: another peer fetches what this one denies, or it waits. If no
peer fetches it, it is given up, and "peerd retry" queues it again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(
		newDenyEditCommand("add", "Deny hosts, domains or networks", node.AddDenied,
			"%d of %d rules were new\n"),
		newDenyEditCommand("remove", "Remove rules", node.RemoveDenied, "removed %d of %d rules\n"),
		newDenyListCommand())
	return cmd
}

func newDenyEditCommand(
	name, short string, edit func(home config.Home, rules ...string) (int, error), done string,
) *cobra.Command {
	return onHome(&cobra.Command{
		Use:   name + " [--home DIR] RULE...",
		Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef(cmd, "got no rule, want a host, .domain or range of addresses")
			}
			return nil
		},
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		n, err := edit(home, args...)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), done, n, len(args))
		return err
	})
}

func newDenyListCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "list [--home DIR]",
		Short: "Print the rules",
		Args:  cobra.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		rules, err := node.Denied(home)
		for _, r := range rules {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), r); err != nil {
				return err
			}
		}
		return err
	})
}
