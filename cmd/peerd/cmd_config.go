package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
)

func newConfigCommand() *cobra.Command {
	return cli.NewGroup("config", "Show, check and change the settings in config.toml", "",
		newConfigShowCommand(), newConfigCheckCommand(), newConfigSetCommand())
}

func newConfigShowCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "show [--home DIR] [KEY]",
		Short: "Print all settings with their values, or one",
		Args: func(cmd *cobra.Command, list []string) error {
			if len(list) > 1 {
				return cli.Usagef(cmd, "want at most one key, but got %q", list[1])
			}
			return nil
		},
		ValidArgs: config.Keys(),
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
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
	})
}

func newConfigCheckCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "check [--home DIR]",
		Short: "Report all faults in config.toml and in the profile",
		Args:  cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		p, err := ownProfile(home)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "the settings and the rules of %s are valid\n",
			p.NetworkID())
		return err
	})
}

func newConfigSetCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "set [--home DIR] KEY VALUE",
		Short: "Change a setting in config.toml",
		Long: `Writes a setting to config.toml and keeps all other lines, also comments. VALUE is
as in the file; quotes around a single text may be left out. A value that is not valid is
refused, and nothing is changed. "peerd reload" applies limits to the running peer.

  peerd config set crawl.pages_per_day 5000
  peerd config set crawl.hours 22:00-06:00
  peerd config set contact https://example.org/crawler`,
		Args:      cli.Args(2, "want a key and a value"),
		ValidArgs: config.Keys(),
	}, func(_ *cobra.Command, home config.Home, args []string) error {
		return home.Set(args[0], args[1])
	})
}
