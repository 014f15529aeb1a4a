package main

import (
	"cmp"
	"errors"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
	"peerd/node/config"
)

const rootHelp = `peerd crawls the web together with other peers. Each part of the web is
crawled by the peer that is nearest to its servers. There is no coordinator.

To try it on this machine alone:

  peerd testnet

To run a peer:

  peerd network new --seed https://example.org/ NAME     # or: peerd join LINE
  peerd run
  peerd status

A peer lives in a directory, its home: $PEERD_HOME, or ~/.local/share/peerd, or --home DIR.

Results go to stdout, messages to stderr. Exit status: 0 success; 1 failure; 2 a wrong
option, argument, setting or home, and nothing was done.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:     "peerd",
		Short:   "A peer-to-peer web crawler",
		Long:    rootHelp,
		Version: config.Version,
	}
	cli.Setup(root)
	root.AddCommand(
		newInitCommand(), newRunCommand(), newCollectCommand(), newSeedCommand(), newStopCommand(),
		newNetworkCommand(), newInviteCommand(), newJoinCommand(),
		newDoctorCommand(), newPauseCommand(), newResumeCommand(), newReloadCommand(),
		newConfigCommand(),
		newStatusCommand(), newTopCommand(),
		newPeersCommand(), newSubnetsCommand(), newQueueCommand(),
		newRetryCommand(),
		newDashboardCommand(), newRobotsCommand(), newDenyCommand(),
		newLinksCommand(), newExportCommand(), newGetCommand(), newSearchCommand(),
		newTraceCommand(), newIndexCommand(), newReplayCommand(),
		newCrawlCommand(), newCrawlletCommand(), newPluginCommand(), newTestnetCommand(),
		newSiteCommand(), newRegistryCommand(),
		newToolCommand(), newManCommand(), newVersionCommand(),
	)
	return root
}

// homeFlag adds --home. Its value may be "", which homeDir replaces.
func homeFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "home", "",
		"`directory` of the peer (default $PEERD_HOME, or ~/.local/share/peerd)")
	_ = cmd.MarkFlagDirname("home") // the flag exists
}

// homeDir returns the directory that an option names, or the default.
func homeDir(cmd *cobra.Command, option, dir string) (string, error) {
	if dir = cmp.Or(dir, config.DefaultHome()); dir == "" {
		return "", cli.Usagef(cmd, "%s is missing, and so are $PEERD_HOME and $HOME", option)
	}
	return dir, nil
}

// homeOption returns --home as it was given, for commands to try next.
func homeOption(dir string) string {
	if dir == "" {
		return ""
	}
	return " --home " + dir
}

// openHome returns the home that --home names, or the default one.
func openHome(cmd *cobra.Command, dir string) (config.Home, error) {
	dir, err := homeDir(cmd, "--home", dir)
	if err != nil {
		return config.Home{}, err
	}
	return config.Open(dir)
}

// initHome is openHome for a home that is created unless it exists.
func initHome(cmd *cobra.Command, dir string) (config.Home, error) {
	dir, err := homeDir(cmd, "--home", dir)
	if err != nil {
		return config.Home{}, err
	}
	home, err := config.Init(dir)
	if errors.Is(err, config.ErrExists) {
		return config.Open(dir)
	}
	return home, err
}

// onHome completes a command that needs a home: it adds --home.
func onHome(
	cmd *cobra.Command, run func(cmd *cobra.Command, home config.Home, args []string) error,
) *cobra.Command {
	var dir string
	homeFlag(cmd, &dir)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		home, err := openHome(cmd, dir)
		if err != nil {
			return err
		}
		return run(cmd, home, args)
	}
	return cmd
}

// onPeer completes a command that needs the peer that runs with a home: it adds --home.
func onPeer(
	cmd *cobra.Command, run func(cmd *cobra.Command, c *admin.Client, args []string) error,
) *cobra.Command {
	return onHome(cmd, func(cmd *cobra.Command, home config.Home, args []string) error {
		client, err := admin.Dial(home.APIFile())
		if err == nil {
			err = run(cmd, client, args)
		}
		return adviseRun(home, err)
	})
}

// oneURL demands one argument, a URL that can be crawled.
func oneURL(cmd *cobra.Command, args []string) error {
	if len(args) != 1 {
		return cli.Usagef(cmd, "want one URL")
	}
	if err := config.CheckURL(args[0]); err != nil {
		return cli.Usagef(cmd, "%w", err)
	}
	return nil
}

// fromPeerOrHome asks the peer that runs with a home, or reads the home if none runs.
func fromPeerOrHome(
	home config.Home, ask func(c *admin.Client) error, read func() error,
) error {
	client, err := admin.Dial(home.APIFile())
	if err == nil {
		err = ask(client)
	}
	if errors.Is(err, admin.ErrNotRunning) {
		return read()
	}
	return err
}

// dial returns the home that --home names and a client for the peer in it.
func dial(cmd *cobra.Command, dir string) (config.Home, *admin.Client, error) {
	home, err := openHome(cmd, dir)
	if err != nil {
		return config.Home{}, nil, err
	}
	client, err := admin.Dial(home.APIFile())
	return home, client, adviseRun(home, err)
}
