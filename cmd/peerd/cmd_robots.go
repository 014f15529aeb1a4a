package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
)

func newRobotsCommand() *cobra.Command {
	var refresh bool
	cmd := viewCommand(&cobra.Command{
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
		Args: cli.Args(1, "want one host"),
	}, func(ctx context.Context, c *admin.Client, args []string) ([]admin.RobotsFile, error) {
		return c.Robots(ctx, args[0], refresh)
	}, showRobots)
	cmd.Flags().BoolVar(&refresh, "refresh", false, "read the files again now")
	return cmd
}

func showRobots(w io.Writer, files []admin.RobotsFile) error {
	t := cli.NewTable(w, "ORIGIN", "STATE", "STATUS", "BYTES", "FETCHED", "EXPIRES")
	for _, f := range files {
		t.Row(f.Origin, f.State, f.Status, f.Bytes, f.Fetched.Local().Format(time.DateTime),
			f.Expires.Local().Format(time.DateTime))
	}
	return t.Flush()
}
