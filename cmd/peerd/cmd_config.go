package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
)

func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Show, check and change the settings in config.toml",
		Args:  cobra.ArbitraryArgs,
		RunE:  cli.Group,
	}
	cmd.AddCommand(newConfigShowCommand(), newConfigCheckCommand(), newConfigSetCommand())
	return cmd
}

func newConfigShowCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "show [--home DIR] [KEY]",
		Short: "Print all settings with their values, or one",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := openHome(cmd, dir)
			if err != nil {
				return err
			}
			c, err := home.Load()
			if err != nil {
				return err
			}
			text, err := c.Text(strings.Join(args, ""))
			if err != nil {
				return cli.Usagef(cmd, "%w", err)
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
		ValidArgs: config.Keys(),
	}
	homeFlag(cmd, &dir)
	return cmd
}

func newConfigCheckCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "check [--home DIR]",
		Short: "Report all faults in config.toml and in the profile",
		Args:  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			home, err := openHome(cmd, dir)
			if err != nil {
				return err
			}
			c, err := home.Load()
			if err != nil {
				return err
			}
			p, err := home.NetworkProfile(c, "")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "the settings and the rules of %s are valid\n",
				p.NetworkID())
			return err
		},
	}
	homeFlag(cmd, &dir)
	return cmd
}

func newConfigSetCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "set [--home DIR] KEY VALUE",
		Short: "Change a setting in config.toml",
		Long: `Writes a setting to config.toml and keeps all other lines, also comments. VALUE is
as in the file; quotes around a single text may be left out. A value that is not valid is
refused, and nothing is changed. "peerd reload" applies limits to the running peer.

  peerd config set crawl.pages_per_day 5000
  peerd config set crawl.hours 22:00-06:00
  peerd config set contact https://example.org/crawler`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return cli.Usagef(cmd, "want a key and a value")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := openHome(cmd, dir)
			if err != nil {
				return err
			}
			return home.Set(args[0], args[1])
		},
		ValidArgs: config.Keys(),
	}
	homeFlag(cmd, &dir)
	return cmd
}
