package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/node"
	"peerd/node/config"
)

var scopes = []string{"host", "domain", "any"}

type crawlOptions struct {
	home     string
	maxPages int64
	scope    string
	profile  string
	patience time.Duration
	json     bool
	crawl    crawlFlags
}

func newCrawlCommand() *cobra.Command {
	var o crawlOptions
	cmd := &cobra.Command{
		Use:   "crawl URL...",
		Short: "Crawl once, alone, until nothing is left",
		Long: `Starts a network of one peer, crawls from the URLs until nothing is left, and prints
a summary. If no page was fetched, it prints the reasons for up to 20 URLs, and the exit
status is 1. It is also 1 if the crawl ended early, or if URLs were given up because their
servers could not be reached; the same command with the same --home tries these again.
While the network of this machine is down, the crawl waits.

With --home, the pages are kept there (see "peerd links --home DIR"), an interrupted
crawl continues where it stopped, and what its config.toml says of web sites and of the
archive applies, except crawl.patience. Without --home, everything is deleted at the end.`,
		RunE: func(cmd *cobra.Command, urls []string) error { return runCrawl(cmd, &o, urls) },
	}
	cmd.Flags().StringVar(&o.home, "home", "",
		"`directory` to keep the pages in, which is created if it is missing (default: none)")
	_ = cmd.MarkFlagDirname("home") // the flag exists
	cmd.Flags().Int64Var(&o.maxPages, "max-pages", 0,
		"stop after this `number` of pages (default: no limit)")
	cmd.Flags().StringVar(&o.scope, "scope", "host",
		"follow links within the hosts or the domains of the URLs, or all: host, domain, any")
	cmd.Flags().StringVar(&o.profile, "profile", "",
		"`file` with the rules of a network; its name, seeds, scope and revisits are ignored")
	cmd.Flags().DurationVar(&o.patience, "patience", node.DefaultPatience,
		"`time` for which a host may answer nothing before its URLs are given up")
	cli.JSONFlag(cmd, &o.json)
	o.crawl.add(cmd)
	return cmd
}

func runCrawl(cmd *cobra.Command, o *crawlOptions, urls []string) error {
	if err := o.check(cmd, urls); err != nil {
		return err
	}
	cfg, err := o.config(cmd)
	if err != nil {
		return err
	}
	if cfg.Archive.Enabled && o.home == "" {
		return cli.Usagef(cmd,
			"--warc needs --home: without it the archive would be deleted at the end")
	}
	rules := config.DefaultProfile()
	if o.profile != "" {
		if rules, err = config.LoadProfile(o.profile); err != nil {
			return err
		}
	}
	log, err := cli.NewLogger(cmd, slog.LevelWarn)
	if err != nil {
		return err
	}
	cfg.LimitMemory()
	sum, err := node.Crawl(cmd.Context(), node.CrawlOptions{
		Home:      o.home,
		Seeds:     urls,
		MaxPages:  o.maxPages,
		Scope:     o.scope,
		Patience:  o.patience,
		Config:    cfg,
		Rules:     rules,
		UserAgent: config.UserAgent(cfg.Contact),
		Progress:  cmd.ErrOrStderr(),
		Logger:    log,
	})
	stopped := cli.Interrupted(cmd.Context(), err)
	if sum.End == "" {
		return err
	}
	if err := o.print(cmd.OutOrStdout(), sum); err != nil {
		return err
	}
	switch {
	case stopped:
		return errors.New("crawl: interrupted before the end")
	case err == nil && sum.Pages == 0:
		printSeedFailures(cmd.ErrOrStderr(), sum.Seeds)
		return errors.New("crawl: no page was fetched")
	case err == nil:
		return unreachable(sum.GivenUp)
	}
	return err
}

// unreachable returns an error if URLs were given up because of connectivity.
func unreachable(groups []node.GivenUpGroup) error {
	var urls int64
	var by []string
	for _, g := range groups {
		if g.Connectivity {
			urls += g.URLs
			by = append(by, fmt.Sprintf("%s %d", g.Outcome, g.URLs))
		}
	}
	if urls == 0 {
		return nil
	}
	return fmt.Errorf("crawl: gave up %s that could not be reached (%s); "+
		"the same command with the same --home tries again",
		cli.Count(urls, "URL"), strings.Join(by, ", "))
}

// maxSeedFailures bounds the seeds for which a reason is printed.
const maxSeedFailures = 20

// printSeedFailures prints why seeds were not fetched, one a line.
func printSeedFailures(w io.Writer, seeds []node.SeedOutcome) {
	more := 0
	for i, s := range seeds {
		switch {
		case s.Fetched:
		case i >= maxSeedFailures:
			more++
		default:
			fmt.Fprintf(w, "peerd: %s: %s\n", cli.Clip(s.URL), cli.OneLine(s.Reason))
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "peerd: %s not fetched\n", cli.Count(more, "more URL"))
	}
}

func (o *crawlOptions) check(cmd *cobra.Command, urls []string) error {
	if len(urls) == 0 {
		return cli.Usagef(cmd, "no URL")
	}
	for _, u := range urls {
		if err := config.CheckURL(u); err != nil {
			return cli.Usagef(cmd, "%w", err)
		}
	}
	if o.maxPages < 0 {
		return cli.Usagef(cmd, "--max-pages %d: want 0 or more", o.maxPages)
	}
	if o.patience < time.Second {
		return cli.Usagef(cmd, "--patience %s: want at least 1s", o.patience)
	}
	if !slices.Contains(scopes, o.scope) {
		return cli.Usagef(cmd, "--scope %q: want host, domain or any", o.scope)
	}
	return nil
}

// config returns the settings of the home, which is created if needed, overridden by the
// options.
func (o *crawlOptions) config(cmd *cobra.Command) (config.Config, error) {
	cfg := config.Default()
	if o.home != "" {
		home, err := initHome(cmd, o.home)
		if err != nil {
			return cfg, err
		}
		if cfg, err = home.Load(); err != nil {
			return cfg, err
		}
	}
	if err := o.crawl.apply(cmd, &cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// crawlReport is the output of --json.
type crawlReport struct {
	node.Summary
	Failed       int64   `json:"failed"`        // URLs in given_up, without denied ones
	RobotsDenied int64   `json:"robots_denied"` // URLs in given_up
	TookS        float64 `json:"took_s"`
}

func (o *crawlOptions) print(w io.Writer, s node.Summary) error {
	if o.json {
		failed, denied := s.Failed()
		return cli.PrintJSON(w, crawlReport{s, failed, denied, s.Took.Seconds()})
	}
	t := cli.NewTable(w)
	t.Row("pages", s.Pages)
	t.Row("bytes", cli.Size(s.Bytes))
	t.Row("hosts", s.Hosts)
	t.Counts("answered", "URL", s.Answered())
	t.Counts("dropped", "URL", s.DroppedBy)
	t.Counts("marked", "page", s.MarkedBy)
	t.Row("end", endTexts[s.End])
	if s.Left > 0 {
		t.Row("left", cli.Count(s.Left, "URL"))
	}
	t.Row("took", s.Took.Round(100*time.Millisecond))
	if err := t.Flush(); err != nil {
		return err
	}
	return printGivenUp(w, s.GivenUp)
}

// printGivenUp prints the numbers of URLs that were given up, each with examples.
func printGivenUp(w io.Writer, groups []node.GivenUpGroup) error {
	for _, g := range groups {
		fmt.Fprintf(w, "given up: %s, %s\n", cli.Count(g.URLs, "URL"), g.Outcome)
		for _, e := range g.Examples {
			fmt.Fprintf(w, "  %s\n", formatGivenUp(e))
		}
		if more := g.URLs - int64(len(g.Examples)); more > 0 {
			fmt.Fprintf(w, "  and %d more\n", more)
		}
	}
	return nil
}

// endTexts describes why a crawl ended.
var endTexts = map[node.End]string{
	node.EndDone:        "nothing is left",
	node.EndMaxPages:    "reached --max-pages",
	node.EndNoSpace:     "no free space on the disk or in the archive",
	node.EndInterrupted: "interrupted",
	node.EndFailed:      "an error",
}
