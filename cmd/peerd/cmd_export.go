package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

// exports are the kinds of export. Those with resumes can be continued.
var exports = []struct {
	name, short string
	resumes     bool
	write       func(ctx context.Context, j *exportJob) error
}{
	{"warc", "The responses, as one WARC file (gzip, one member for each record)", true,
		fromArchive(exportWARC)},
	{"wacz", "The responses, with an index and a list of pages, as one WACZ file", false,
		fromArchive(exportWACZ)},
	{"cdx", "The index of the archive, in CDXJ, sorted", false, fromArchive(exportCDX)},
	{"links", "The fetched pages with their links, as JSON lines", true, exportLinks},
	{"graph", "The links between pages, as CSV: source, target", true, exportGraph},
	{"arcs", "The links between pages, as URLs with a tab between them, for WebGraph", true,
		exportArcs},
	{"given-up", "The URLs that were given up, with the reasons, as JSON lines", false,
		exportGivenUp},
	{"text",
		"The texts of the archived pages, as JSON lines: url, fetched_at, title, charset, text",
		true, fromArchive(exportText)},
}

// An exportJob is one export.
type exportJob struct {
	home config.Home
	only exportFilter
	w    io.Writer
	at   exportPosition // where it begins, and up to where it has come
	mark func() error   // called when w has exactly what is before at
}

// exportFilter selects the part that is exported. The zero value selects everything.
type exportFilter struct {
	host  string // as in canonical URLs
	since time.Time
}

// want is has for the archive; nil selects everything.
func (f exportFilter) want() node.Want {
	if f == (exportFilter{}) {
		return nil
	}
	return f.has
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
	return err == nil && u.Hostname() == f.host
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
home, links, graph, arcs and given-up cannot be exported.

The archive holds one copy, and one text, for each time a page was fetched. It does not
hold pages that ask not to be archived. Pages that ask not to be indexed have no text.

What was fetched since an earlier export, or is of one host, can be exported alone. With
--resume, an export that was interrupted continues where it was.

Records of the archive that are damaged are left out. The export is complete otherwise; the
command says how many there are and exits with status 1.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef(cmd, "nothing to export, want warc, wacz, cdx, links, graph, "+
					"arcs, given-up or text")
			}
			return cli.Group(cmd, args)
		},
	}
	for _, e := range exports {
		var dir, out, since string
		var resume bool
		var only exportFilter
		sub := &cobra.Command{
			Use:   e.name + " [--home DIR]",
			Short: e.short,
			Args:  cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) (err error) {
				if only.since, err = parseSince(since); err != nil {
					return cli.Usagef(cmd, "%v", err)
				}
				if only.host != "" {
					if only.host, err = node.HostName(only.host); err != nil {
						return cli.Usagef(cmd, "--host: %w", err)
					}
				}
				if resume && (out == "" || out == "-") {
					return cli.Usagef(cmd, "--resume needs a file: --output FILE")
				}
				home, err := openHome(cmd, dir)
				if err != nil {
					return err
				}
				j := &exportJob{home: home, only: only, mark: func() error { return nil },
					at: exportPosition{Export: fmt.Sprintf("%s --host=%q --since=%q", e.name,
						only.host, since), Archive: map[string]int64{}}}
				if resume {
					return j.resume(cmd.Context(), out, e.write)
				}
				if err := toFile(cmd, out, func(w io.Writer) error {
					j.w = w
					return e.write(cmd.Context(), j)
				}); err != nil {
					return err
				}
				return j.at.damage()
			},
		}
		homeFlag(sub, &dir)
		sub.Flags().StringVar(&only.host, "host", "", "only pages of this `host`")
		sub.Flags().StringVar(&since, "since", "",
			"only what was fetched, or given up, since this `time`")
		sub.Flags().StringVarP(&out, "output", "o", "",
			"`file` to write; - is standard output (default -)")
		if e.resumes {
			sub.Flags().BoolVar(&resume, "resume", false, "write FILE.part, and continue it if "+
				"an earlier export was interrupted")
		}
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
			return fmt.Errorf("create %s: %w", name, withoutPath(err))
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

// fromArchive returns an export of what is archived.
func fromArchive(
	write func(ctx context.Context, j *exportJob, r *node.ArchiveReader) error,
) func(context.Context, *exportJob) error {
	return func(ctx context.Context, j *exportJob) error {
		r, err := node.Archive(j.home)
		if err != nil {
			return err
		}
		r.Damaged = j.at.addDamage
		return write(ctx, j, r)
	}
}

func exportWARC(ctx context.Context, j *exportJob, r *node.ArchiveReader) error {
	return r.Extract(ctx, j.w, j.only.want(), j.at.Archive, j.mark)
}

func exportWACZ(ctx context.Context, j *exportJob, r *node.ArchiveReader) error {
	return r.WACZ(ctx, j.w, j.only.want(), "peerd/"+config.Version)
}

func exportCDX(ctx context.Context, j *exportJob, r *node.ArchiveReader) error {
	return r.IndexOf(ctx, j.w, j.only.want())
}

// eachLink calls write for the selected pages.
func (j *exportJob) eachLink(ctx context.Context, write func(admin.Link) error) error {
	return eachLink(ctx, j.home, j.at.After, func(l admin.Link) error {
		if j.only.has(l.URL, l.FetchedAt) {
			if err := write(l); err != nil {
				return err
			}
		}
		j.at.After = l.URL
		return j.mark()
	})
}

func exportLinks(ctx context.Context, j *exportJob) error {
	return j.eachLink(ctx, func(l admin.Link) error { return cli.PrintJSON(j.w, l) })
}

func exportGraph(ctx context.Context, j *exportJob) error {
	rows := csv.NewWriter(j.w)
	if j.at.After == "" {
		if err := rows.Write([]string{"source", "target"}); err != nil {
			return err
		}
	}
	err := j.eachLink(ctx, func(l admin.Link) error {
		for _, target := range l.Outlinks {
			if err := rows.Write([]string{l.URL, target}); err != nil {
				return err
			}
		}
		rows.Flush()
		return rows.Error()
	})
	rows.Flush()
	return errors.Join(err, rows.Error())
}

// exportArcs writes what "webgraph from arcs" reads. Canonical URLs contain no blanks.
func exportArcs(ctx context.Context, j *exportJob) error {
	return j.eachLink(ctx, func(l admin.Link) error {
		for _, target := range l.Outlinks {
			if _, err := fmt.Fprintf(j.w, "%s\t%s\n", l.URL, target); err != nil {
				return err
			}
		}
		return nil
	})
}

func exportGivenUp(ctx context.Context, j *exportJob) error {
	return eachGivenUp(ctx, j.home, "", func(g admin.GivenUp) error {
		if !j.only.has(g.URL, g.At) {
			return nil
		}
		return cli.PrintJSON(j.w, g)
	})
}

func exportText(ctx context.Context, j *exportJob, r *node.ArchiveReader) error {
	return node.Texts(ctx, r, j.at.Archive, func(t node.Text) error {
		if err := j.mark(); err != nil { // this text is not written yet
			return err
		}
		if !j.only.has(t.URL, t.FetchedAt) {
			return nil
		}
		return cli.PrintJSON(j.w, t)
	})
}
