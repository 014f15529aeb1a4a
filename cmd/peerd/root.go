package main

import (
	"context"
	stdlog "log"
	"log/slog"
	"strings"

	golog "github.com/ipfs/go-log/v2"
	"github.com/libp2p/go-libp2p/gologshim"
	"github.com/spf13/cobra"

	"peerd/node/admin"
	"peerd/node/config"
)

const rootHelp = `peerd crawls the web together with other peers. Each part of the web is
crawled by the peer that is nearest to its servers; nobody coordinates.

To see it work on this machine alone:

  peerd testnet

To run a peer:

  peerd init --home DIR
  peerd run  --home DIR
  peerd seed --home DIR https://example.org/

Results go to stdout, messages to stderr. Exit status: 0 done; 1 it failed;
2 a wrong option, argument, setting or home, and nothing was tried.`

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "peerd",
		Short:         "A peer-to-peer web crawler",
		Long:          rootHelp,
		Version:       config.Version,
		SilenceErrors: true, // report prints them
		SilenceUsage:  true,
		Args:          cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) == 0 {
				return cmd.Help()
			}
			if near := cmd.SuggestionsFor(list[0]); len(near) > 0 {
				return usagef(cmd, "unknown command %q, did you mean %q", list[0], near[0])
			}
			return usagef(cmd, "unknown command %q", list[0])
		},
	}
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return &usageError{cmd, err} })
	root.PersistentFlags().String("log-level", "", "least level that is logged: debug, info, warn, error")
	root.AddCommand(
		newInitCommand(), newRunCommand(), newSeedCommand(), newStopCommand(),
		newStatusCommand(), newPeersCommand(), newSubnetsCommand(), newQueueCommand(), newLinksCommand(), newExportCommand(),
		newCrawlCommand(), newTestnetCommand(), newLabCommand(), newSiteCommand(), newRegistryCommand(), newToolCommand(), newVersionCommand(),
	)
	return root
}

// newLogger returns a logger on stderr at the level of --log-level, or else at
// level.
func newLogger(cmd *cobra.Command, level slog.Level) (*slog.Logger, error) {
	if text, _ := cmd.Flags().GetString("log-level"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, usagef(cmd, "--log-level %q: want debug, info, warn or error", text)
		}
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}))
	slog.SetDefault(log)
	hushLibraries(log)
	return log, nil
}

// hushLibraries sends what the libp2p libraries and the standard library log of
// their own to log, at debug level only: their warnings are about other peers'
// and servers' doings, hold what these sent, and read as ours.
func hushLibraries(log *slog.Logger) {
	h := slog.Handler(slog.DiscardHandler)
	if log.Enabled(context.Background(), slog.LevelDebug) {
		h = log.Handler()
	}
	gologshim.SetDefaultHandler(h)
	golog.SetupLogging(golog.Config{Level: golog.LevelFatal})
	stdlog.SetFlags(0)
	stdlog.SetOutput(hushed{log})
}

// hushed is where the standard library's own logger writes.
type hushed struct{ log *slog.Logger }

// Write logs a message, or what it begins with.
func (h hushed) Write(text []byte) (int, error) {
	h.log.Debug("library", "text", clipped(strings.TrimSpace(string(text))))
	return len(text), nil
}

// homeFlag adds --home.
func homeFlag(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "home", "", "directory of the peer")
}

// openHome returns the home that --home names.
func openHome(cmd *cobra.Command, dir string) (config.Home, error) {
	if dir == "" {
		return config.Home{}, usagef(cmd, "--home is missing")
	}
	return config.Open(dir)
}

// dial returns the home that --home names and a client for the peer in it.
func dial(cmd *cobra.Command, dir string) (config.Home, *admin.Client, error) {
	home, err := openHome(cmd, dir)
	if err != nil {
		return config.Home{}, nil, err
	}
	client, err := admin.Dial(home.APIFile())
	return home, client, advise(home, err)
}
