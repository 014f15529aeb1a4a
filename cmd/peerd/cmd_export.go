package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

// exports are the kinds of export.
var exports = []struct {
	name, short string
	write       func(ctx context.Context, home config.Home, w io.Writer) error
}{
	{"warc", "All responses, as one WARC file (gzip, one member for each record)", exportWARC},
	{"cdx", "The index of the archive, in CDXJ, sorted", exportCDX},
	{"links", "The fetched pages with their links, as JSON lines", exportLinks},
	{"given-up", "The URLs that were given up, with the reasons, as JSON lines", exportGivenUp},
	{"text",
		"The texts of the archived pages, as JSON lines: url, fetched_at, title, charset, text",
		exportText},
}

func newExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Export the fetched pages",
		Long: `Writes the fetched pages to standard output, or to a file that appears when it is
complete. It works whether or not the peer runs. While "peerd crawl" runs with the
home, links and given-up cannot be exported.

The archive holds one copy, and one text, for each time a page was fetched. It does not
hold pages that ask not to be archived. Pages that ask not to be indexed have no text.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return cli.Usagef(cmd, "nothing to export, want warc, cdx, links, given-up or text")
			}
			return cli.Group(cmd, args)
		},
	}
	for _, e := range exports {
		var dir, out string
		sub := &cobra.Command{
			Use:   e.name + " [--home DIR]",
			Short: e.short,
			Args:  cli.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				home, err := openHome(cmd, dir)
				if err != nil {
					return err
				}
				return toFile(cmd, out, func(w io.Writer) error {
					return e.write(cmd.Context(), home, w)
				})
			},
		}
		homeFlag(sub, &dir)
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

func exportWARC(ctx context.Context, home config.Home, w io.Writer) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return r.Copy(ctx, w)
}

func exportCDX(ctx context.Context, home config.Home, w io.Writer) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return r.Index(ctx, w)
}

func exportLinks(ctx context.Context, home config.Home, w io.Writer) error {
	return eachLink(ctx, home, func(l admin.Link) error { return cli.PrintJSON(w, l) })
}

func exportGivenUp(ctx context.Context, home config.Home, w io.Writer) error {
	return eachGivenUp(ctx, home, "", func(g admin.GivenUp) error { return cli.PrintJSON(w, g) })
}

func exportText(ctx context.Context, home config.Home, w io.Writer) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return node.WriteTexts(ctx, r, w)
}
