package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
)

func newDenyCommand() *cobra.Command {
	return cli.NewGroup("deny", "Choose hosts and networks that the peer does not request",
		`Edits the deny list of a peer, the file "deny" in its home. A rule is one of:

  example.org      a host
  .example.org     a domain: the host and all hosts below it
  192.0.2.0/24     a range of addresses, or a single address

A running peer reads the list before its next request; it need not be restarted. It keeps
its place in the network: another peer fetches what this one denies, or it waits. If no
peer fetches it, it is given up, and "peerd retry" queues it again.`,
		newDenyEditCommand("add", "Deny hosts, domains or networks", node.AddDenied,
			"%d of %d rules were new\n"),
		newDenyEditCommand("remove", "Remove rules", node.RemoveDenied, "removed %d of %d rules\n"),
		newDenyListCommand())
}

func newDenyEditCommand(
	name, short string, edit func(home config.Home, rules ...string) (int, error), done string,
) *cobra.Command {
	return onHome(&cobra.Command{
		Use:   name + " [--home DIR] RULE...",
		Short: short,
		Args:  cli.SomeArgs("got no rule, want a host, .domain or range of addresses"),
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
		Args:  cli.NoArgs,
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
