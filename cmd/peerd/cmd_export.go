package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/google/renameio/v2"
	"github.com/spf13/cobra"

	"peerd/node"
	"peerd/node/admin"
	"peerd/node/config"
)

// exports are what can be exported.
var exports = []struct {
	name, short string
	write       func(ctx context.Context, home config.Home, w io.Writer) error
}{
	{"warc", "All answers, as one WARC file (gzip, a member a record)", exportWARC},
	{"cdx", "The index of the archive, in CDXJ, sorted", exportCDX},
	{"links", "The pages fetched, with their links, as JSON lines", exportLinks},
	{"text", "The texts of the archived pages, as JSON lines: url, fetched_at, title, charset, text", exportText},
}

func newExportCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write out what the peer fetched",
		Long: `Streams what the peer fetched to standard output, or into a file that appears
when it is whole. It works whether the peer runs or not; the links of a home that
"peerd crawl" runs in have to wait for its end.

A page is in the archive, and its text in that of the archive, as often as it was
fetched. Pages that ask not to be archived are not there, and those that ask not to
be indexed have no text.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, list []string) error {
			if len(list) > 0 {
				return usagef(cmd, "cannot export %q, want warc, cdx, links or text", list[0])
			}
			return usagef(cmd, "what? warc, cdx, links or text")
		},
	}
	for _, e := range exports {
		var dir, out string
		sub := &cobra.Command{
			Use:   e.name + " --home DIR",
			Short: e.short,
			Args:  noArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				home, err := openHome(cmd, dir)
				if err != nil {
					return err
				}
				return toFile(cmd, out, func(w io.Writer) error { return e.write(cmd.Context(), home, w) })
			},
		}
		homeFlag(sub, &dir)
		sub.Flags().StringVarP(&out, "output", "o", "", "`file` to write; - or without, standard output")
		cmd.AddCommand(sub)
	}
	return cmd
}

// toFile lets write fill a file, which is there when it is whole or not at all;
// names "" and "-" are standard output.
func toFile(cmd *cobra.Command, name string, write func(io.Writer) error) error {
	var f io.Writer = cmd.OutOrStdout()
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
	return eachLink(ctx, home, func(l admin.Link) error { return printJSON(w, l) })
}

func exportText(ctx context.Context, home config.Home, w io.Writer) error {
	r, err := node.Archive(home)
	if err != nil {
		return err
	}
	return node.WriteTexts(ctx, r, w)
}
