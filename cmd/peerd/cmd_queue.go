package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

func newQueueCommand() *cobra.Command {
	cmd := newViewCommand("queue", "List the hosts that have URLs waiting at the running peer",
		(*admin.Client).Queue, showQueue)
	cmd.Long = `Lists the hosts that have URLs waiting at the running peer.

With --given-up, it lists the URLs that the peer no longer tries to fetch, with the reason,
whether or not the peer runs, but not while "peerd crawl" runs with the home. "peerd retry"
queues them again.`
	var givenUp bool
	var host string
	cmd.Flags().BoolVar(&givenUp, "given-up", false, "list the URLs that were given up")
	cmd.Flags().StringVar(&host, "host", "", "only those of this `host`, with --given-up")
	waiting := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !givenUp && host != "" {
			return cli.Usagef(cmd, "--host needs --given-up")
		}
		if !givenUp {
			return waiting(cmd, args)
		}
		dir, _ := cmd.Flags().GetString("home")
		asJSON, _ := cmd.Flags().GetBool("json")
		home, err := openHome(cmd, dir)
		if err != nil {
			return err
		}
		return printLines(cmd.OutOrStdout(), asJSON, givenUpLine,
			func(show func(admin.GivenUp) error) error {
				return eachGivenUp(cmd.Context(), home, host, show)
			})
	}
	return cmd
}

func showQueue(w io.Writer, hosts []admin.Host) error {
	t := cli.NewTable(w, "HOST", "SUBNET", "ROLE", "PENDING", "IN FLIGHT", "NEXT", "DELAY", "OWNER")
	for _, h := range hosts {
		next, delay := "", ""
		if h.NextAt != nil {
			next = h.NextAt.Local().Format(time.TimeOnly)
		}
		if h.DelayMs > 0 {
			delay = ms(h.DelayMs)
		}
		t.Row(h.Host, h.Subnet, h.Role, h.Pending, h.InFlight, next, delay, h.Owner)
	}
	return t.Flush()
}

// eachGivenUp reads the URLs that were given up from the running peer, or from the store if none
// runs.
func eachGivenUp(
	ctx context.Context, home config.Home, host string, show func(admin.GivenUp) error,
) error {
	return fromPeerOrHome(home,
		func(c *admin.Client) error { return c.GivenUp(ctx, host, show) },
		func() error { return node.GivenUp(ctx, home, host, show) })
}

// givenUpLine prints URLs that were given up, one a line.
func givenUpLine(w io.Writer) func(admin.GivenUp) error {
	return lineByLine(w, "%-18s  %-19s  %s\n", []any{"OUTCOME", "GIVEN UP", "URL: ERROR"},
		func(g admin.GivenUp) []any { return []any{g.Outcome, when(g.At), formatGivenUp(g)} })
}

// formatGivenUp formats a URL with the reason why it was given up.
func formatGivenUp(g admin.GivenUp) string {
	text := g.URL
	switch {
	case g.Error != "":
		text += ": " + g.Error
	case g.Status != 0:
		text += fmt.Sprintf(": status %d", g.Status)
	}
	return cli.Printable(text)
}
