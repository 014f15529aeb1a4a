package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

func newLinksCommand() *cobra.Command {
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "links [--home DIR]",
		Short: "List the fetched pages with their links",
		Long: `Lists the pages that the peer fetched. With --json, it prints one JSON object a line:
url, status, outcome, bytes, fetched_at, outlinks, estimation, took_ms. It works whether
or not the peer runs, but not while "peerd crawl" runs with the home.`,
		Args: cli.NoArgs,
	}, func(cmd *cobra.Command, home config.Home, _ []string) error {
		return printLines(cmd.OutOrStdout(), asJSON, linkLine,
			func(show func(admin.Link) error) error {
				return eachLink(cmd.Context(), home, "", show)
			})
	})
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// eachLink reads the pages from the running peer, or from the store if none runs: those behind the
// page of the URL after, or all.
func eachLink(
	ctx context.Context, home config.Home, after string, show func(admin.Link) error,
) error {
	return fromPeerOrHome(home,
		func(c *admin.Client) error { return c.Links(ctx, after, show) },
		func() error { return node.Links(ctx, home, after, show) })
}

// linkLine prints pages, one a line.
func linkLine(w io.Writer) func(admin.Link) error {
	return lineByLine(w, "%-6v  %-18s  %9v  %6v  %-19s  %s\n",
		[]any{"STATUS", "OUTCOME", "BYTES", "LINKS", "FETCHED", "URL"},
		func(l admin.Link) []any {
			return []any{l.Status, l.Outcome, l.Bytes, len(l.Outlinks), when(l.FetchedAt),
				cli.Printable(l.URL)}
		})
}
