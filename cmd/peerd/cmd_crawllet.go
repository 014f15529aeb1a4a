package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node/config"
	"peerd/node/crawllet"
)

func newCrawlletCommand() *cobra.Command {
	return cli.NewGroup("crawllet", "Run crawlers beside the files of a web site",
		`A crawllet is a small program of a crawler that a web site runs beside its files. The
crawler receives all pages, or summaries of them, in one exchange.

serve is for the web site, fetch for the crawler.`,
		newCrawlletServeCommand(), newCrawlletFetchCommand())
}

func newCrawlletServeCommand() *cobra.Command {
	o := crawllet.ServeOptions{Limits: crawllet.DefaultLimits}
	cmd := &cobra.Command{
		Use:   "serve --root DIR [--prefix URL] [--listen ADDR]",
		Short: "Serve crawllets for the files of a web site",
		Long: `Runs crawllets that may read the files of a web site, until a signal. It serves only
/.well-known/crawllet; the web server forwards that path to it.

A crawllet reads the files that the options allow and nothing else: no other file, no
network, no list of a directory. Hidden files, and what robots.txt disallows, are
excluded. Each runs in a process of its own, which ends at the limits.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runCrawlletServe(cmd, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "", "`directory` of the web site")
	f.StringVar(&o.Prefix, "prefix", "",
		"`URL` under which the directory is served, with a slash at the end "+
			"(default: that of the listener)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8099", "`host:port` to serve on")
	f.StringVar(&o.Cache, "cache", "", "`directory` for modules (default: the user's cache)")
	f.StringVar(&o.Robots, "robots", "",
		"robots.txt to obey (default: that in the directory, if the prefix has no path)")
	f.StringSliceVar(&o.Types, "types", crawllet.DefaultTypes,
		"`extensions` of the files that are read")
	f.StringArrayVar(&o.Peers, "peer", nil,
		"`ID` of a peer that may run crawllets; repeatable (default: any crawler)")
	l := &o.Limits
	f.Uint32Var(&l.CPU, "cpu", l.CPU, "maximum processor time of a run, `seconds`")
	f.Uint32Var(&l.Memory, "memory", l.Memory, "maximum memory of a run, `MiB`")
	f.Uint32Var(&l.Pages, "pages", l.Pages, "maximum `number` of files that a run reads")
	f.Uint64Var(&l.Output, "output", l.Output, "maximum output of a run, `bytes`")
	f.Uint32Var(&l.Wall, "wall", l.Wall, "maximum duration of a run, `seconds`")
	return cmd
}

func runCrawlletServe(cmd *cobra.Command, o crawllet.ServeOptions) error {
	if o.Root == "" {
		return cli.Usagef(cmd, "--root is missing")
	}
	if err := config.CheckHostPort(o.Listen); err != nil {
		return cli.Usagef(cmd, "--listen: %w", err)
	}
	for _, t := range o.Types {
		if !strings.HasPrefix(t, ".") || strings.ToLower(t) != t {
			return cli.Usagef(cmd, "--types %s: want extensions such as .html", cli.Clip(t))
		}
	}
	log, err := cli.NewLogger(cmd, slog.LevelInfo)
	if err != nil {
		return err
	}
	o.Logger = log
	o.Ready = func(policy string) { log.Info("serving crawllets", "policy", policy) }
	return cli.UnlessInterrupted(cmd.Context(), crawllet.Serve(cmd.Context(), o))
}

type crawlletFetchOptions struct {
	crawllet.FetchOptions
	home, to, since string
}

func newCrawlletFetchCommand() *cobra.Command {
	var o crawlletFetchOptions
	cmd := &cobra.Command{
		Use:   "fetch URL [--to FILE] [--summaries]",
		Short: "Fetch the pages of a site with a crawllet",
		Long: `Has a crawllet crawl the site of the URL, from there, and writes what it reports.

The records are written as JSON lines, with the bodies in base64. If the run ends early,
what has arrived is kept, and the exit status is 1.`,
		Args: cli.Args(1, "want one URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.URL = args[0]
			return runCrawlletFetch(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.to, "to", "-", "`file` to write; - is standard output")
	f.BoolVar(&o.Summaries, "summaries", false,
		"titles, beginnings of texts, and links, without bodies")
	f.StringVar(&o.since, "since", "",
		"omit pages that have not changed since this `time`, RFC 3339")
	f.IntVar(&o.Pages, "max-pages", 0, "maximum `number` of pages (default: all)")
	f.IntVar(&o.Check, "check", 0,
		"`number` of pages, chosen at random, that are also fetched and compared")
	f.StringVar(&o.Module, "module", "",
		"`file` with the crawllet (default: crawllet.wasm beside the program)")
	f.StringVar(&o.home, "home", "",
		"`directory` of the peer as which to crawl (default: a new key)")
	f.StringVar(&o.Contact, "contact", "", "`URL` of the operator, for the site")
	return cmd
}

func runCrawlletFetch(cmd *cobra.Command, o *crawlletFetchOptions) error {
	if o.Pages < 0 || o.Check < 0 {
		return cli.Usagef(cmd, "--max-pages %d, --check %d: want 0 or more", o.Pages, o.Check)
	}
	if o.since != "" {
		since, err := time.Parse(time.RFC3339, o.since)
		if err != nil {
			return cli.Usagef(cmd, "--since %s: want a time such as 2026-11-22T15:04:05Z",
				cli.Clip(o.since))
		}
		o.Since = since
	}
	if o.home != "" {
		home, err := openHome(cmd, o.home)
		if err != nil {
			return err
		}
		o.Home = &home
	}
	res, err := o.fetch(cmd.Context(), cmd.OutOrStdout())
	if res.Records > 0 {
		printFetched(cmd.ErrOrStderr(), res)
	}
	if n := len(res.Checked.Different); err == nil && n > 0 {
		err = fmt.Errorf("the site serves other pages than the crawllet reported: %s, first %s",
			cli.Count(n, "page"), res.Checked.Different[0])
	}
	return err
}

// fetch opens the target and fetches.
func (o *crawlletFetchOptions) fetch(ctx context.Context, stdout io.Writer) (
	res crawllet.FetchResult, err error,
) {
	w := stdout
	if o.to != "-" {
		f, err := os.Create(o.to)
		if err != nil {
			return res, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		w = f
	}
	o.To = crawllet.NewLines(w)
	return crawllet.Fetch(ctx, o.FetchOptions)
}

// printFetched prints what was done.
func printFetched(w io.Writer, r crawllet.FetchResult) {
	fmt.Fprintf(w, "%s of %s received as %s in %s, the first after %s; "+
		"the site used %s of processor time\n",
		cli.Count(r.Pages, "page"), cli.Size(r.Bytes), cli.Size(r.Received),
		r.Time.Round(time.Millisecond), r.First.Round(time.Millisecond),
		time.Duration(r.Usage.CPU)*time.Millisecond)
	if c := r.Checked; c.Same+len(c.Different)+len(c.Unknown) > 0 {
		fmt.Fprintf(w, "compared %d: %d same, %d different, %d not fetched\n",
			c.Same+len(c.Different)+len(c.Unknown), c.Same, len(c.Different), len(c.Unknown))
	}
}
