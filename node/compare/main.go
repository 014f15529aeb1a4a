package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// options are the flags of the comparison.
type options struct {
	seeds, roots, only []string
	allow              []netip.Prefix
	parallel           []int
	accessLog, peerd   string
	runs, cores        int
	cpu, serverCPU     int
	warc, json         bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		stop()
		os.Exit(1)
	}
}

// run is main without the process around it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) > 2 && (args[0] == "colly" || args[0] == "bare") {
		return drive(ctx, args, stdout)
	}
	o, err := parseOptions(args, stderr)
	if err != nil {
		return err
	}
	return compare(ctx, o, stdout, stderr)
}

// drive is a sub-command: name, requests at once, seeds.
func drive(ctx context.Context, args []string, stdout io.Writer) error {
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 {
		return fmt.Errorf("%s: %q requests at once: want a number from 1", args[0], args[1])
	}
	crawl := crawlBare
	if args[0] == "colly" {
		crawl = crawlColly
	}
	t, err := crawl(ctx, args[2:], n)
	if err != nil {
		return err
	}
	return json.NewEncoder(stdout).Encode(t)
}

func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{only: kinds, parallel: []int{8, 32}}
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	each := func(name, usage string, add func(string) error) { fs.Func(name, usage, add) }
	each("seed", "`URL` to begin at; repeatable", func(s string) error { o.seeds = append(o.seeds, s); return nil })
	each("root", "`directory` that an nginx of our own serves, in place of --seed; repeatable, each is a site", func(s string) error {
		o.roots = append(o.roots, s)
		return nil
	})
	each("allow-net", "address `range` that peerd may fetch from; repeatable", func(s string) error {
		p, err := netip.ParsePrefix(s)
		o.allow = append(o.allow, p)
		return err
	})
	each("only", "`crawlers` to run, of peerd,colly,bare", func(s string) error {
		o.only = strings.Split(s, ",")
		for _, k := range o.only {
			if !slices.Contains(kinds, k) {
				return fmt.Errorf("%q: want some of %s", k, strings.Join(kinds, ","))
			}
		}
		return nil
	})
	each("parallel", "`numbers` of requests at once for colly and bare (default 8,32)", func(s string) error {
		o.parallel = nil
		for f := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(f)
			if err != nil || n < 1 {
				return fmt.Errorf("%q: want numbers from 1", s)
			}
			o.parallel = append(o.parallel, n)
		}
		return nil
	})
	fs.StringVar(&o.accessLog, "access-log", "", "`file` that the server logs to, in the format that accesslog.go names")
	fs.StringVar(&o.peerd, "peerd", "", "`binary` to run; without it peerd is built from ../..")
	fs.IntVar(&o.runs, "runs", 3, "rounds; each crawler runs once in each")
	fs.IntVar(&o.cores, "cores", 1, "run peerd also on so many cores")
	fs.IntVar(&o.cpu, "cpu", 0, "core of the crawlers; -1: any")
	fs.IntVar(&o.serverCPU, "nginx-cpu", 1, "core of our own nginx; -1: any")
	fs.BoolVar(&o.warc, "warc", false, "run peerd also with its archive on")
	fs.BoolVar(&o.json, "json", false, "print JSON, with every single run")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	return o, o.check(fs.NArg())
}

func (o options) check(rest int) error {
	switch {
	case rest > 0:
		return errors.New("no arguments, only options: --seed URL")
	case (len(o.seeds) == 0) == (len(o.roots) == 0):
		return errors.New("want --seed or --root")
	case len(o.roots) > 0 && o.accessLog != "":
		return errors.New("--root has a log of its own: no --access-log")
	case o.runs < 1:
		return fmt.Errorf("--runs %d: want at least 1", o.runs)
	case o.cores < 1 || o.cores > runtime.NumCPU():
		return fmt.Errorf("--cores %d: this machine has %d", o.cores, runtime.NumCPU())
	}
	_, err := newRule(o.seeds)
	return err
}

// pinned returns the n cores of a crawler, or none when it may run anywhere.
func (o options) pinned(n int) []int {
	if o.cpu < 0 {
		return nil
	}
	var cpus []int
	for i := range n {
		cpus = append(cpus, (o.cpu+i)%runtime.NumCPU())
	}
	return cpus
}

// compare runs everything and prints what came of it.
func compare(ctx context.Context, o options, stdout, stderr io.Writer) error {
	scratch, err := os.MkdirTemp("", "peerd-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{census: census{number: map[string]int{}}, scratch: scratch}
	if o.accessLog != "" {
		b.log = &accessLog{o.accessLog}
	}
	if len(o.roots) > 0 {
		var cpus []int
		if o.serverCPU >= 0 {
			cpus = []int{o.serverCPU % runtime.NumCPU()}
		}
		srv, err := startNginx(ctx, o.roots, scratch, cpus)
		if err != nil {
			return err
		}
		defer srv.stop()
		b.log, o.seeds, o.allow = &srv.log, srv.seeds, append(o.allow, loopback)
	}
	samples, notes, err := b.rounds(ctx, o, stderr)
	if err != nil {
		return err
	}
	r := b.makeReport(samples)
	r.Go, r.Cores, r.Notes = runtime.Version(), o.placement(), append(r.Notes, notes...)
	if o.json {
		return r.writeJSON(stdout)
	}
	return r.writeTable(stdout)
}

// placement says what ran where.
func (o options) placement() string {
	s := fmt.Sprintf("crawlers on core %d of %d", o.cpu, runtime.NumCPU())
	switch {
	case o.cpu < 0 || !canPin:
		s = fmt.Sprintf("crawlers on any of %d cores", runtime.NumCPU())
	case len(o.roots) == 0:
		s += ", the server where it is"
	case o.serverCPU >= 0:
		s += fmt.Sprintf(", the server on core %d", o.serverCPU%runtime.NumCPU())
	}
	return s
}

// rounds runs the crawlers in turn, so that what changes on the machine meets
// them all.
func (b *bench) rounds(ctx context.Context, o options, stderr io.Writer) (samples []sample, notes []string, err error) {
	peerd := o.peerd
	if peerd == "" && slices.Contains(o.only, "peerd") {
		if peerd, err = buildPeerd(ctx, "../..", b.scratch); err != nil {
			return nil, nil, err
		}
	}
	note := func(f string, a ...any) { notes = append(notes, fmt.Sprintf(f, a...)) }
	all, err := crawlers(ctx, o, peerd, note)
	if err != nil {
		return nil, nil, err
	}
	for round := 1; round <= o.runs; round++ {
		for _, c := range all {
			s, err := b.measure(ctx, c, round)
			if err != nil {
				return nil, nil, err
			}
			fmt.Fprintf(stderr, "round %d: %s: %d pages, %.0f a CPU-second\n", round, c.name(), s.Pages, s.perCPU())
			samples = append(samples, s)
		}
	}
	return samples, notes, nil
}
