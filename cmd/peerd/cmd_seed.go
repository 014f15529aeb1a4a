package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/admin"
	"peerd/node/tool"
)

type seedOptions struct {
	home string
	file string
	json bool

	changed bool
}

func newSeedCommand() *cobra.Command {
	var o seedOptions
	cmd := &cobra.Command{
		Use:   "seed [--home DIR] URL... | -f FILE | -",
		Short: "Add URLs to the crawl of the running peer",
		Long: `Adds URLs to the crawl of the peer that runs with the home: those of the command
line, or of a file or stdin, one a line. Empty lines and lines that start with # are
skipped. Accepted URLs are on disk when the command ends.

With --changed, pages that were fetched before are fetched again at once. In a network
without revisits this has no effect; nor has it for a site of which another peer
owns the subnet, unless its robots.txt names this peer: docs/sites.md.

The exit status is 0 if every URL was accepted or known. For every other URL, the
command prints the reason to stderr, and the exit status is 1. If it fails on the way, it
prints the result of the URLs before.`,
		RunE: func(cmd *cobra.Command, urls []string) error { return runSeed(cmd, &o, urls) },
	}
	homeFlag(cmd, &o.home)
	cmd.Flags().BoolVar(&o.changed, "changed", false,
		"the pages have changed: fetch them again if they were fetched before")
	cmd.Flags().StringVarP(&o.file, "file", "f", "", "read URLs from a `file`; - is stdin")
	cli.JSONFlag(cmd, &o.json)
	return cmd
}

func runSeed(cmd *cobra.Command, o *seedOptions, urls []string) error {
	src, err := o.source(cmd, urls)
	if err != nil {
		return err
	}
	defer src.Close()
	home, client, err := dial(cmd, o.home)
	if err != nil {
		return err
	}
	add := client.Seed
	if o.changed {
		add = client.Changed
	}
	return adviseRun(home, o.seed(cmd, add, src))
}

// seed passes the URLs of src to add and prints the result, or that of those before an error.
func (o *seedOptions) seed(
	cmd *cobra.Command, add func(context.Context, []string) (admin.SeedResult, error),
	src io.Reader,
) error {
	total, err := seedAll(cmd.Context(), add, src, cmd.ErrOrStderr())
	if err != nil && total.Accepted+total.Known == 0 && total.OK() {
		return err
	}
	if err := errors.Join(err, o.print(cmd.OutOrStdout(), total)); err != nil {
		return err
	}
	if !total.OK() {
		return cli.ErrReported
	}
	return nil
}

func (o *seedOptions) source(cmd *cobra.Command, urls []string) (io.ReadCloser, error) {
	if len(urls) == 1 && urls[0] == "-" && o.file == "" {
		o.file, urls = "-", nil
	}
	switch {
	case len(urls) > 0 && o.file != "":
		return nil, cli.Usagef(cmd, "got both URLs and --file")
	case len(urls) > 0:
		return io.NopCloser(strings.NewReader(strings.Join(urls, "\n"))), nil
	case o.file == "-":
		return io.NopCloser(cmd.InOrStdin()), nil
	case o.file != "":
		return os.Open(o.file)
	}
	return nil, cli.Usagef(cmd, "no URL")
}

// seedAll passes the URLs of src to add in parts and prints the rejected ones to w.
func seedAll(
	ctx context.Context, add func(context.Context, []string) (admin.SeedResult, error),
	src io.Reader, w io.Writer,
) (admin.SeedResult, error) {
	total := admin.SeedResult{OutOfScope: []admin.Rejected{}, Invalid: []admin.Rejected{}}
	var part []string
	send := func() error {
		res, err := add(ctx, part)
		part = part[:0]
		total.Add(res)
		printRejected(w, "out of scope", res.OutOfScope)
		printRejected(w, "invalid", res.Invalid)
		return err
	}
	err := eachURL(src, func(u string) error {
		part = append(part, u)
		if len(part) < admin.MaxSeedURLs {
			return nil
		}
		return send()
	})
	if err == nil && len(part) > 0 {
		err = send()
	}
	return total, err
}

func printRejected(w io.Writer, what string, rejected []admin.Rejected) {
	for _, r := range rejected {
		fmt.Fprintf(w, "peerd: seed: %s: %s: %s\n", what, cli.OneLine(r.URL), cli.OneLine(r.Reason))
	}
}

// eachURL calls yield for every URL of src. It truncates one that is longer than a URL may be to
// a length that is still rejected.
func eachURL(src io.Reader, yield func(string) error) error {
	for line, err := range tool.Lines(src) {
		if err != nil {
			return fmt.Errorf("read URLs: %w", err)
		}
		text := strings.TrimSpace(strings.TrimPrefix(line, "\uFEFF"))
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		u := strings.Clone(text[:min(len(text), admin.MaxURLBytes+1)]) // so that the rest is freed
		if err := yield(u); err != nil {
			return err
		}
	}
	return nil
}

func (o *seedOptions) print(w io.Writer, r admin.SeedResult) error {
	if o.json {
		return cli.PrintJSON(w, r)
	}
	_, err := fmt.Fprintf(w, "%d accepted, %d known, %d out of scope, %d invalid\n",
		r.Accepted, r.Known, len(r.OutOfScope), len(r.Invalid))
	return err
}
