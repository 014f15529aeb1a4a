package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
)

func newPluginCommand() *cobra.Command {
	return cli.NewGroup("plugin", "Sign, publish and list plug-ins",
		`A plug-in is a small program, in WebAssembly, that reads each page that a peer
fetches, and finds links or notes something for the archive. Peers receive plug-ins from each other,
and run those of the publishers that plugins.publishers in config.toml names.

sign makes a package of a module, and publish gives the package to a peer.`,
		newPluginSignCommand(), newPluginPublishCommand(), newPluginListCommand())
}

func newPluginSignCommand() *cobra.Command {
	var name, to string
	var version uint64
	cmd := onHome(&cobra.Command{
		Use:   "sign --name NAME --version N -o FILE [--home DIR] MODULE",
		Short: "Make a package of a module, signed with the key of a peer",
		Args:  cli.Args(1, "want one file"),
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		if name == "" || version == 0 || to == "" {
			return cli.Usagef(cmd, "--name, --version and -o are needed")
		}
		module, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer module.Close()
		pkg, err := node.SignPlugin(home, name, version, module)
		if err != nil {
			return err
		}
		id, err := home.PeerID()
		if err != nil {
			return err
		}
		if err := renameio.WriteFile(to, pkg, 0o644); err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "signed %s %d by publisher %s\n", name, version, id)
		return err
	})
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "`name` of the plug-in: a-z, 0-9 and hyphens")
	f.Uint64Var(&version, "version", 0, "`number` of the version; higher ones replace lower ones")
	f.StringVarP(&to, "output", "o", "", "`file` to write")
	return cmd
}

func newPluginPublishCommand() *cobra.Command {
	return onHome(&cobra.Command{
		Use:   "publish [--home DIR] PACKAGE",
		Short: "Give a package to a peer, which runs it and passes it on",
		Long: `Copies a package into the home of a peer. The peer runs the plug-in within seconds,
and other peers that trust its publisher receive it. A plug-in that was switched off is on again.
A package of another module is refused unless its version is higher.`,
		Args: cli.Args(1, "want one file"),
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		p, err := node.PublishPlugin(home, args[0])
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "published %s %d\n", p.Name, p.Version)
		return err
	})
}

func newPluginListCommand() *cobra.Command {
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "list [--home DIR]",
		Short: "List the plug-ins of a peer",
		Args:  cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		all, err := node.Plugins(home)
		t := cli.NewTable(cmd.OutOrStdout())
		for _, p := range all {
			if !asJSON {
				t.Row(p.Name, p.Version, p.Publisher, p.State)
			} else if e := cli.PrintJSON(cmd.OutOrStdout(), p); e != nil {
				return e
			}
		}
		return errors.Join(err, t.Flush())
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON lines")
	return cmd
}
