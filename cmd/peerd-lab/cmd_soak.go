package main

import (
	"time"

	"github.com/spf13/cobra"

	"peerd/cmd/internal/cli"
	"peerd/lab/soak"
	"peerd/node/config"
)

type soakOptions struct {
	watch   soak.WatchOptions
	queue   soak.QueueOptions
	profile soak.Profiles
	minutes float64
	short   bool
	crawl   []string
	allow   []string
}

func newSoakCommand() *cobra.Command {
	var o soakOptions
	cmd := &cobra.Command{
		Use:   "soak",
		Short: "Measure the resources of a peer over a long time or with a long queue",
		Long: `Runs one peer on an endless web and writes its use of resources to DIR/soak.csv and
DIR/soak.svg; or, with --frontier, fills a store with URLs and opens it again; or,
with --crawl, crawls pages once without politeness, for profiles.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return runSoak(cmd, &o) },
	}
	f := cmd.Flags()
	f.Float64Var(&o.minutes, "minutes", 30, "time that the peer runs, in minutes")
	f.BoolVar(&o.short, "short", false, "run for a few seconds only, as a test")
	f.StringVar(&o.watch.Out, "out", "soak",
		"`directory` for soak.csv, soak.svg and, during the run, the peer's home directory")
	f.DurationVar(&o.watch.Every, "every", 5*time.Second, "`time` between two readings")
	f.DurationVar(&o.watch.Delay, "min-delay", 20*time.Millisecond,
		"least `time` between two requests to a site")
	f.IntVar(&o.watch.Sites, "sites", 64, "`number` of sites of the endless web")
	f.Float64Var(&o.watch.Limit, "limit", 0,
		"fail if the memory grows by more than this many `MiB` per hour; 0: never")
	f.IntVar(&o.queue.URLs, "frontier", 0, "instead, fill a store with this `number` of URLs")
	f.IntVar(&o.queue.Hosts, "hosts", 10_000, "`number` of hosts of the URLs of --frontier")
	f.StringVar(&o.queue.Dir, "tmp", "", "`directory` for the store of --frontier")
	f.DurationVar(&o.queue.Work, "work", 10*time.Second,
		"how long --frontier takes URLs from the store")
	f.StringArrayVar(&o.crawl, "crawl", nil, "instead, crawl once from this `URL`; repeatable")
	f.StringArrayVar(&o.allow, "allow-net", nil,
		"address `range` that --crawl may fetch from; repeatable")
	f.StringVar(&o.profile.CPU, "cpuprofile", "", "`file` for a profile of processor time")
	f.StringVar(&o.profile.Memory, "memprofile", "",
		"`file` for a profile of all allocations; it slows the run down")
	return cmd
}

func runSoak(cmd *cobra.Command, o *soakOptions) error {
	run, err := o.prepare(cmd)
	if err != nil {
		return err
	}
	return ended(cmd, run())
}

// prepare checks the options and returns the function that runs them.
func (o *soakOptions) prepare(cmd *cobra.Command) (run func() error, err error) {
	allow, err := config.ParseNets(o.allow)
	if err != nil {
		return nil, cli.Usagef(cmd, "--allow-net: %w", err)
	}
	child, err := self("soak-child")
	if err != nil {
		return nil, err
	}
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	switch {
	case len(o.crawl) > 0:
		return func() error { return soak.Crawl(ctx, o.crawl, allow, o.profile, out) }, nil
	case o.queue.URLs > 0:
		if err := o.queue.Validate(); err != nil {
			return nil, cli.Usagef(cmd, "%w", err)
		}
		o.queue.Self, o.queue.Profile = child, o.profile
		return func() error { return soak.Queue(ctx, o.queue, out) }, nil
	}
	o.watch.Length = time.Duration(o.minutes * float64(time.Minute))
	if o.short {
		o.watch.Length, o.watch.Every, o.watch.Sites = 6*time.Second, 250*time.Millisecond, 8
	}
	if err := o.watch.Validate(); err != nil {
		return nil, cli.Usagef(cmd, "%w", err)
	}
	o.watch.Self, o.watch.Profile = child, o.profile
	return func() error { return soak.Watch(ctx, o.watch, out) }, nil
}
