package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

// exports are the kinds of export. Those with filtered can be limited to a part.
var exports = []struct {
	name, short string
	filtered    bool
	write       func(ctx context.Context, home config.Home, w io.Writer, only exportFilter) error
}{
	{"warc", "All responses, as one WARC file (gzip, one member for each record)", false,
		exportWARC},
	{"cdx", "The index of the archive, in CDXJ, sorted", false, exportCDX},
	{"links", "The fetched pages with their links, as JSON lines", true, exportLinks},
	{"graph", "The links between pages, as CSV: source, target", true, exportGraph},
	{"given-up", "The URLs that were given up, with the reasons, as JSON lines", true,
		exportGivenUp},
	{"text",
		"The texts of the archived pages, as JSON lines: url, fetched_at, title, charset, text",
		true, exportText},
}

// exportFilter selects the part that is exported. The zero value selects everything.
type exportFilter struct {
	host  string
	since time.Time
}

// has reports whether a page, fetched or given up at that time, is exported.
func (f exportFilter) has(page string, at time.Time) bool {
	if at.Before(f.since) {
		return false
	}
	if f.host == "" {
		return true
	}
	u, err := url.Parse(page)
	return err == nil && strings.EqualFold(u.Hostname(), f.host)
}

// parseSince parses a time (RFC 3339) or a day, which begins at midnight UTC; "" is the zero time.
func parseSince(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	at, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return at, fmt.Errorf("--since is %q, want 2026-01-31 or 2026-01-31T12:00:00Z",
			cli.Clip(text))
	}
	return at, nil
}

func newExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the fetched pages",
		Long: `Writes the fetched pages to standard output, or to a file that appears when it is
complete. It works whether or not the peer runs. While "peerd crawl" runs with the
home, links, graph and given-up cannot be exported.

The archive holds one copy, and one text, for each time a page was fetched. It does not
hold pages that ask not to be archived. Pages that ask not to be indexed have no text.

What was fetched since an earlier export, or is of one host, can be exported alone; not
so of warc and cdx, which are the archive as it is.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef(cmd,
					"nothing to export, want warc, cdx, links, graph, given-up or text")
			}
			return cli.Group(cmd, args)
		},
	}
	for _, e := range exports {
		var dir, out, since string
		var only exportFilter
		sub := &cobra.Command{
			Use:   e.name + " [--home DIR]",
			Short: e.short,
			Args:  cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) (err error) {
				if only.since, err = parseSince(since); err != nil {
					return cli.Usagef(cmd, "%v", err)
				}
				home, err := openHome(cmd, dir)
				if err != nil {
					return err
				}
				return toFile(cmd, out, func(w io.Writer) error {
					return e.write(cmd.Context(), home, w, only)
				})
			},
		}
		homeFlag(sub, &dir)
		if e.filtered {
			sub.Flags().StringVar(&only.host, "host", "", "only pages of this `host`")
			sub.Flags().StringVar(&since, "since", "",
				"only what was fetched, or given up, since this `time`")
		}
		sub.Flags().StringVarP(&out, "output", "o", "",
			"`file` to write; - is standard output (default -)")
		cmd.AddCommand(sub)
	}
	return cmd
}

// toFile has write fill a file, which it creates atomically; "" and "-" are standard output.
func toFile(cmd *cobra.Command, name string, write func(io.Writer) error) error {
	f := cmd.OutOrStdout()
	commit := func() error { return nil }
	if name != "" && name != "-" {
		p, err := renameio.NewPendingFile(name, renameio.WithPermissions(0o644))
		if err != nil {
			return err
		}
		defer p.Cleanup()
		f, commit = p, p.CloseAtomicallyReplace
	}
	w := bufio.NewWriterSize(f, 256<<10)
	if err := errors.Join(write(w), w.Flush()); err != nil {
		if errors.Is(err, os.ErrClosed) {
			err = errors.New("the output was closed")
		}
		return err
	}
	return commit()
}

func exportWARC(ctx context.Context, home config.Home, w io.Writer, _ exportFilter) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return r.Copy(ctx, w)
}

func exportCDX(ctx context.Context, home config.Home, w io.Writer, _ exportFilter) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return r.Index(ctx, w)
}

func exportLinks(ctx context.Context, home config.Home, w io.Writer, only exportFilter) error {
	return eachLink(ctx, home, func(l admin.Link) error {
		if !only.has(l.URL, l.FetchedAt) {
			return nil
		}
		return cli.PrintJSON(w, l)
	})
}

func exportGraph(ctx context.Context, home config.Home, w io.Writer, only exportFilter) error {
	rows := csv.NewWriter(w)
	if err := rows.Write([]string{"source", "target"}); err != nil {
		return err
	}
	err := eachLink(ctx, home, func(l admin.Link) error {
		if !only.has(l.URL, l.FetchedAt) {
			return nil
		}
		for _, target := range l.Outlinks {
			if err := rows.Write([]string{l.URL, target}); err != nil {
				return err
			}
		}
		return nil
	})
	rows.Flush()
	return errors.Join(err, rows.Error())
}

func exportGivenUp(ctx context.Context, home config.Home, w io.Writer, only exportFilter) error {
	return eachGivenUp(ctx, home, "", func(g admin.GivenUp) error {
		if !only.has(g.URL, g.At) {
			return nil
		}
		return cli.PrintJSON(w, g)
	})
}

func exportText(ctx context.Context, home config.Home, w io.Writer, only exportFilter) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	return node.Texts(ctx, r, func(t node.Text) error {
		if !only.has(t.URL, t.FetchedAt) {
			return nil
		}
		return lines.Encode(t)
	})
}
