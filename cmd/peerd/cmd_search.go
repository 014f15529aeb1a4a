package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/term"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

func newSearchCommand() *cobra.Command {
	var offset, limit int
	var asJSON bool
	cmd := onHome(&cobra.Command{
		Use:   "search [--home DIR] QUERY...",
		Short: "Search the crawled pages of all peers",
		Long: `Searches the pages that all peers of the network have crawled and indexed, and prints
the best ones. If no peer runs with the home, only the index of the home is searched.

A page must have all words, in any form of them. The arguments are joined by spaces:

  "two words"           the words next to each other (quote them for the shell as well)
  -word                 not this word
  site:example.org      this host, and those below it
  filetype:html         or text
  lang:de               the language, as in ISO 639-1
  date:2026-01..        fetched on this day, month or year, or in a span of them (UTC)

docs/search.md describes what is indexed, and what the order means.`,
		Args: cli.SomeArgs("nothing to search for, want words"),
	}, func(cmd *cobra.Command, home config.Home, args []string) error {
		if offset < 0 || limit < 1 || offset > node.MaxHits || limit > node.MaxHits-offset {
			return cli.Usagef(cmd, "--offset %d, --limit %d: want 0 or more, 1 or more, and "+
				"together at most %d", offset, limit, node.MaxHits)
		}
		r, err := runSearch(cmd.Context(), home, strings.Join(args, " "), offset, limit)
		switch {
		case err != nil:
			return err
		case asJSON:
			return cli.PrintJSON(cmd.OutOrStdout(), r)
		}
		return showHits(cmd.OutOrStdout(), r)
	})
	cmd.Flags().IntVar(&offset, "offset", 0, "number of hits to skip")
	cmd.Flags().IntVar(&limit, "limit", 10, fmt.Sprintf(
		"maximum number of hits; with --offset at most %d", node.MaxHits))
	cli.JSONFlag(cmd, &asJSON)
	return cmd
}

// runSearch asks the running peer, or searches the index of the home if none runs.
func runSearch(
	ctx context.Context, home config.Home, query string, offset, limit int,
) (r admin.SearchResult, err error) {
	err = fromPeerOrHome(home, func(c *admin.Client) (err error) {
		r, err = c.Search(ctx, query, offset, limit)
		return err
	}, func() (err error) {
		r, err = node.SearchHome(ctx, home, query, offset, limit)
		return err
	})
	return r, err
}

// showHits prints the hits, and what the result lacks.
func showHits(w io.Writer, r admin.SearchResult) error {
	var err error
	printf := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format, args...)
		}
	}
	on, off := "*", "*"
	if f, ok := w.(*os.File); ok && term.IsTerminal(f.Fd()) {
		on, off = "\x1b[1m", "\x1b[0m"
	}
	for i, h := range r.Hits {
		printf("%d. %s\n   %s  %s\n", r.Offset+i+1, cli.Printable(h.Title), cli.Printable(h.URL),
			h.FetchedAt.Local().Format(time.DateOnly))
		if h.Snippet != "" {
			printf("   %s\n", highlight(h, on, off))
		}
	}
	printf("%s of about %d", cli.Count(len(r.Hits), "hit"), r.Total)
	printf(" from %s", cli.Count(r.Answered, "peer"))
	if r.Copied > 0 {
		printf(" and copies of %s", cli.Count(r.Copied, "absent peer"))
	}
	if r.NoIndex > 0 {
		printf("; without an index: %s", cli.Count(r.NoIndex, "peer"))
	}
	if r.Failed > 0 {
		printf("; without an answer: %s", cli.Count(r.Failed, "peer"))
	}
	if r.Partial {
		printf("; there may be others")
	}
	printf("\n")
	return err
}

// highlight returns a snippet with its marks.
func highlight(h admin.SearchHit, on, off string) string {
	var b strings.Builder
	at := 0
	for _, m := range h.Marks {
		if m[0] < at || m[1] < m[0] || m[1] > len(h.Snippet) {
			continue
		}
		b.WriteString(cli.Printable(h.Snippet[at:m[0]]))
		b.WriteString(on + cli.Printable(h.Snippet[m[0]:m[1]]) + off)
		at = m[1]
	}
	b.WriteString(cli.Printable(h.Snippet[at:]))
	return b.String()
}
