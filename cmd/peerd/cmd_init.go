package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"peerd/node/config"
)

func newInitCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "init --home DIR",
		Short: "Make a directory the home of a new peer",
		Long: `Makes DIR, created when missing, the home of a new peer: a fresh identity
(key) and a commented config.toml. It never overwrites anything.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runInit(cmd, dir) },
	}
	homeFlag(cmd, &dir)
	return cmd
}

func runInit(cmd *cobra.Command, dir string) error {
	if dir == "" {
		return usagef(cmd, "--home is missing")
	}
	home, err := config.Init(dir)
	if err != nil {
		return err
	}
	id, err := home.PeerID()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "peer %s lives in %s\nset contact in %s before you crawl web sites of others\n",
		id, home.Dir, home.ConfigFile())
	return err
}
