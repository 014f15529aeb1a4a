package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"peerd/node"
	"peerd/node/config"
)

// scopes are what --scope takes.
var scopes = []string{"host", "domain", "any"}

type crawlOptions struct {
	home     string
	maxPages int64
	scope    string
	profile  string
	json     bool
	crawl    crawlFlags
}

func newCrawlCommand() *cobra.Command {
	var o crawlOptions
	cmd := &cobra.Command{
		Use:   "crawl URL...",
		Short: "Crawl once, alone, until nothing is left",
		Long: `Starts a network of one peer, crawls from the URLs until nothing is left, and
prints a summary. With --home the pages are kept there ("peerd links --home DIR")
and an interrupted crawl goes on where it was; settings of config.toml in it
hold. Without, everything is gone at the end.`,
		RunE: func(cmd *cobra.Command, urls []string) error { return runCrawl(cmd, &o, urls) },
	}
	homeFlag(cmd, &o.home)
	cmd.Flags().Int64Var(&o.maxPages, "max-pages", 0, "stop after so many pages (default: no limit)")
	cmd.Flags().StringVar(&o.scope, "scope", "host", "follow links within the host or the domain of the URLs, or any: host, domain, any")
	cmd.Flags().StringVar(&o.profile, "profile", "", "`file` with the rules of a network; its name, seeds and scope are not used, and nothing is revisited")
	jsonFlag(cmd, &o.json)
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
		return usagef(cmd, "--warc needs --home: without one nothing is left at the end")
	}
	rules := config.DefaultProfile()
	if o.profile != "" {
		if rules, err = config.LoadProfile(o.profile); err != nil {
			return err
		}
	}
	log, err := newLogger(cmd, slog.LevelWarn)
	if err != nil {
		return err
	}
	cfg.LimitMemory()
	sum, err := node.Crawl(cmd.Context(), node.CrawlOptions{
		Home:      o.home,
		Seeds:     urls,
		MaxPages:  o.maxPages,
		Scope:     o.scope,
		Config:    cfg,
		Rules:     rules,
		UserAgent: config.UserAgent(cfg.Contact),
		Progress:  cmd.ErrOrStderr(),
		Logger:    log,
	})
	stopped := interrupted(cmd.Context(), err)
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
		fmt.Fprintln(cmd.ErrOrStderr(), "peerd: no page could be fetched; --log-level info tells why")
	}
	return err
}

func (o *crawlOptions) check(cmd *cobra.Command, urls []string) error {
	if len(urls) == 0 {
		return usagef(cmd, "no URL")
	}
	for _, u := range urls {
		if err := config.CheckURL(u); err != nil {
			return usagef(cmd, "%w", err)
		}
	}
	if o.maxPages < 0 {
		return usagef(cmd, "--max-pages %d: want 0 or more", o.maxPages)
	}
	if !slices.Contains(scopes, o.scope) {
		return usagef(cmd, "--scope %q: want host, domain or any", o.scope)
	}
	return nil
}

// config returns the settings of the home, which is made when it is none, with
// the options over them.
func (o *crawlOptions) config(cmd *cobra.Command) (config.Config, error) {
	cfg := config.Default()
	if o.home != "" {
		if _, err := config.Init(o.home); err != nil && !errors.Is(err, config.ErrExists) {
			return cfg, err
		}
		var err error
		if cfg, err = (config.Home{Dir: o.home}).Load(); err != nil {
			return cfg, err
		}
	}
	if err := o.crawl.apply(cmd, &cfg); err != nil {
		return cfg, err
	}
	return cfg, cfg.Validate()
}

// crawlReport is what --json prints.
type crawlReport struct {
	Pages           int64            `json:"pages"`
	Bytes           int64            `json:"bytes"`
	Hosts           int              `json:"hosts"`
	Failed          int64            `json:"failed"`
	RobotsDenied    int64            `json:"robots_denied"`
	Dropped         int64            `json:"dropped"` // URLs
	DroppedByReason map[string]int64 `json:"dropped_by_reason"`
	Marked          map[string]int64 `json:"marked"` // pages that are something special, by what
	Left            int64            `json:"left"`   // URLs that wait
	End             node.End         `json:"end"`
	TookS           float64          `json:"took_s"`
	Outcomes        map[string]int64 `json:"outcomes"` // URLs by how their fetch ended
}

func (o *crawlOptions) print(w io.Writer, s node.Summary) error {
	if o.json {
		return printJSON(w, crawlReport{
			Pages: s.Pages, Bytes: s.Bytes, Hosts: s.Hosts, Failed: s.Failed, RobotsDenied: s.RobotsDenied,
			Dropped: s.Dropped, DroppedByReason: s.DroppedBy, Marked: s.MarkedBy, Left: s.Left, End: s.End,
			TookS: s.Took.Seconds(), Outcomes: s.ByOutcome,
		})
	}
	t := newTable(w)
	t.row("pages", s.Pages)
	t.row("bytes", size(s.Bytes))
	t.row("hosts", s.Hosts)
	t.row("failed", s.Failed)
	t.row("denied by robots.txt", s.RobotsDenied)
	t.counts("outcomes", "URLs", s.ByOutcome)
	t.counts("dropped", "URLs", s.DroppedBy)
	t.counts("marked", "pages", s.MarkedBy)
	t.row("end", ends[s.End])
	if s.Left > 0 {
		t.row("left", fmt.Sprintf("%d URLs", s.Left))
	}
	t.row("took", s.Took.Round(100*time.Millisecond))
	return t.flush()
}

// ends says in words why a crawl ended.
var ends = map[node.End]string{
	node.EndDone:        "nothing is left",
	node.EndMaxPages:    "as many pages as --max-pages says",
	node.EndNoRoom:      "no room on the disk or in the archive",
	node.EndInterrupted: "interrupted",
	node.EndFailed:      "an error",
}
