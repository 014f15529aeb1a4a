package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"peerd/node/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "soak:", err)
		stop()
		os.Exit(1)
	}
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if os.Getenv(childEnv) != "" && len(args) > 0 {
		return runChild(ctx, args, stdin, stdout)
	}
	var o struct {
		watch   watchOptions
		queue   queueOptions
		minutes float64
		short   bool
		crawl   []string
		allow   []netip.Prefix
	}
	fs := flag.NewFlagSet("soak", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Float64Var(&o.minutes, "minutes", 30, "how long the peer runs")
	fs.BoolVar(&o.short, "short", false, "run for a few seconds only, to see that it works")
	fs.StringVar(&o.watch.out, "out", "soak", "`directory` for soak.csv and soak.svg, and for the peer's home meanwhile")
	fs.DurationVar(&o.watch.every, "every", 5*time.Second, "`time` between two readings")
	fs.DurationVar(&o.watch.delay, "min-delay", 20*time.Millisecond, "least `time` between two requests to a site")
	fs.IntVar(&o.watch.sites, "sites", 64, "sites of the web without end")
	fs.Float64Var(&o.watch.limit, "limit", 0, "fail if the memory grows by more than so many `MiB` an hour; 0: never")
	fs.IntVar(&o.queue.urls, "frontier", 0, "fill a store with so many `URLs` instead")
	fs.IntVar(&o.queue.hosts, "hosts", 10_000, "hosts that the URLs of --frontier are of")
	fs.StringVar(&o.queue.dir, "tmp", "", "`directory` for the store of --frontier")
	fs.DurationVar(&o.queue.work, "work", 10*time.Second, "how long --frontier takes URLs out")
	fs.Func("crawl", "crawl from this `URL` once instead; repeatable", func(s string) error { o.crawl = append(o.crawl, s); return nil })
	fs.Func("allow-net", "address `range` that --crawl may fetch from; repeatable", func(s string) error {
		p, err := netip.ParsePrefix(s)
		o.allow = append(o.allow, p)
		return err
	})
	o.watch.profile.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	switch {
	case fs.NArg() > 0:
		return fmt.Errorf("%q: no arguments, only options", fs.Arg(0))
	case len(o.crawl) > 0:
		return crawlOnce(ctx, o.crawl, o.allow, o.watch.profile, stdout)
	case o.queue.urls > 0:
		if o.queue.hosts < 1 || o.queue.hosts > 1<<24 {
			return fmt.Errorf("--hosts %d: want 1 to %d", o.queue.hosts, 1<<24)
		}
		o.queue.profile = o.watch.profile
		return fillAndReopen(ctx, o.queue, stdout)
	}
	o.watch.length = time.Duration(o.minutes * float64(time.Minute))
	if o.short {
		o.watch.length, o.watch.every, o.watch.sites = 6*time.Second, 250*time.Millisecond, 8
	}
	if o.watch.sites < 1 || o.watch.sites > maxSites || o.watch.every <= 0 || o.watch.length <= 0 {
		return fmt.Errorf("want 1 to %d sites and times above zero", maxSites)
	}
	return soak(ctx, o.watch, stdout)
}

// runChild is what again has started. It ends when its standard input does.
func runChild(ctx context.Context, args []string, stdin io.Reader, stdout io.Writer) error {
	ctx, cancel := whileOpen(ctx, stdin)
	defer cancel()
	config.Default().LimitMemory()
	switch args[0] {
	case "peer":
		return runPeer(ctx, args[1:], stdout)
	case "fill", "reopen":
		return runQueue(ctx, args[0] == "fill", args[1:], stdout)
	}
	return fmt.Errorf("%q: unknown step", args[0])
}

// freeMemory collects and gives all that is free back to the system.
func freeMemory() { debug.FreeOSMemory() }
