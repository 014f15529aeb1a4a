package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
)

func newInitCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "init [--home DIR]",
		Short: "Create the home of a new peer",
		Long: `Makes DIR, which it creates if necessary, the home of a new peer with a new identity
(key) and a commented config.toml. It never overwrites a file.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(cmd, dir) },
	}
	homeFlag(cmd, &dir)
	return cmd
}

func runInit(cmd *cobra.Command, dir string) error {
	dir, err := homeDir(cmd, "--home", dir)
	if err != nil {
		return err
	}
	home, err := config.Init(dir)
	if err != nil {
		return err
	}
	id, err := home.PeerID()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(),
		"created peer %s in %s\nset contact in %s before you crawl web sites of others\n",
		id, home.Dir, home.ConfigFile())
	return err
}
