package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

func newLinksCommand() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "links [--home DIR]",
		Short: "List the fetched pages with their links",
		Long: `Lists the pages that the peer fetched. With --json, it prints one JSON object a line:
url, status, outcome, bytes, fetched_at, outlinks, estimation, took_ms. It works whether
or not the peer runs, but not while "peerd crawl" runs with the home.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runLinks(cmd, dir, asJSON) },
	}
	homeFlag(cmd, &dir)
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

func runLinks(cmd *cobra.Command, dir string, asJSON bool) error {
	home, err := openHome(cmd, dir)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(cmd.OutOrStdout(), 64<<10)
	show := linkLine(out)
	if asJSON {
		show = func(l admin.Link) error { return cli.PrintJSON(out, l) }
	}
	return errors.Join(eachLink(cmd.Context(), home, "", show), out.Flush())
}

// eachLink reads the pages from the running peer, or from the store if none runs: those behind the
// page of the URL after, or all.
func eachLink(
	ctx context.Context, home config.Home, after string, show func(admin.Link) error,
) error {
	client, err := admin.Dial(home.APIFile())
	if err == nil {
		err = client.Links(ctx, after, show)
	}
	if errors.Is(err, admin.ErrNotRunning) {
		return node.Links(ctx, home, after, show)
	}
	return err
}

// linkLine prints pages line by line; a table would have to hold all of them in memory.
func linkLine(w io.Writer) func(admin.Link) error {
	const columns = "%-6v  %-18s  %9v  %6v  %-19s  %s\n"
	first := true
	return func(l admin.Link) error {
		if first {
			first = false
			fmt.Fprintf(w, columns, "STATUS", "OUTCOME", "BYTES", "LINKS", "FETCHED", "URL")
		}
		_, err := fmt.Fprintf(w, columns, l.Status, l.Outcome, l.Bytes, len(l.Outlinks),
			l.FetchedAt.Local().Format(time.DateTime), cli.Printable(l.URL))
		return err
	}
}
