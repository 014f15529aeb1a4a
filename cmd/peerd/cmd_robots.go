package main

import (
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

type robotsOptions struct {
	home    string
	refresh bool
	json    bool
}

func newRobotsCommand() *cobra.Command {
	var o robotsOptions
	cmd := &cobra.Command{
		Use:   "robots [--home DIR] [--refresh] HOST",
		Short: "Show the robots.txt files of a host, or read them again",
		Long: `Lists what the running peer knows of the robots.txt of each origin of a host that it
owns. The states are:

  known        its rules are in force
  absent       the site has none; everything is allowed
  stale        it is unreachable now; an earlier copy is in force
  unreachable  it is unreachable, and nothing is fetched

With --refresh, the peer reads the files again: before it requests the next URL, as soon
as the delays of the host allow. Otherwise it reads them when they expire, by default
after an hour.

"peerd tool robots" shows what a robots.txt allows.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return cli.Usagef(cmd, "got %d arguments, want one host", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runRobots(cmd, o, args[0]) },
	}
	homeFlag(cmd, &o.home)
	cmd.Flags().BoolVar(&o.refresh, "refresh", false, "read the files again now")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

func runRobots(cmd *cobra.Command, o robotsOptions, host string) error {
	home, client, err := dial(cmd, o.home)
	if err != nil {
		return err
	}
	files, err := client.Robots(cmd.Context(), host, o.refresh)
	if err != nil {
		return adviseRun(home, err)
	}
	if o.json {
		return cli.PrintJSON(cmd.OutOrStdout(), files)
	}
	return showRobots(cmd.OutOrStdout(), files)
}

func showRobots(w io.Writer, files []admin.RobotsFile) error {
	t := cli.NewTable(w, "ORIGIN", "STATE", "STATUS", "BYTES", "FETCHED", "EXPIRES")
	for _, f := range files {
		t.Row(f.Origin, f.State, f.Status, f.Bytes, f.Fetched.Local().Format(time.DateTime),
			f.Expires.Local().Format(time.DateTime))
	}
	return t.Flush()
}
