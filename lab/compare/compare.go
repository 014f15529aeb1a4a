package compare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"

	"peerd/lab/internal/build"
)

// Options are the parameters of a comparison.
type Options struct {
	// Seeds are the start URLs. Roots are directories that replace them; an nginx that Run
	// starts serves each as a site.
	Seeds, Roots []string
	// TLS serves Roots over TLS 1.3, with a certificate that all crawlers verify.
	TLS bool
	// Only are the crawlers to run, a subset of Crawlers.
	Only []string
	// Allow are the address ranges that peerd may fetch from.
	Allow []netip.Prefix
	// Parallel are the numbers of simultaneous requests for colly and bare.
	Parallel []int
	// AccessLog is the log file of the server of Seeds.
	AccessLog string
	// Peerd and Colly are programs; "" builds them from source.
	Peerd, Colly string
	// Runs is the number of rounds; each crawler runs once per round. peerd runs a second time
	// on Cores cores.
	Runs, Cores int
	// CPU is the core of the crawlers, ServerCPU that of the nginx that Run starts; -1: any.
	CPU, ServerCPU int
	// WARC runs peerd a second time with its archive; JSON prints JSON with every run.
	WARC, JSON bool
	// Self is the command that calls RunBare; its options are appended.
	Self []string
}

// DefaultOptions returns the defaults of the command line.
func DefaultOptions() Options {
	return Options{Only: Crawlers, Parallel: []int{8, 32}, Runs: 3, Cores: 1, ServerCPU: 1}
}

// Validate returns an error that names the first invalid option.
func (o Options) Validate() error {
	for _, k := range o.Only {
		if !slices.Contains(Crawlers, k) {
			return fmt.Errorf("--only %s: want some of %s", k, strings.Join(Crawlers, ","))
		}
	}
	for _, n := range o.Parallel {
		if n < 1 {
			return fmt.Errorf("--parallel %d: want numbers from 1", n)
		}
	}
	switch {
	case (len(o.Seeds) == 0) == (len(o.Roots) == 0):
		return errors.New("want --seed or --root")
	case len(o.Roots) > 0 && o.AccessLog != "":
		return errors.New("--access-log cannot be used with --root")
	case o.TLS && len(o.Roots) == 0:
		return errors.New("--tls needs --root")
	case o.Runs < 1:
		return fmt.Errorf("--runs %d: want at least 1", o.Runs)
	case o.Cores < 1 || o.Cores > runtime.NumCPU():
		return fmt.Errorf("--cores %d: this machine has %d", o.Cores, runtime.NumCPU())
	}
	_, err := newRule(driverOptions{Seeds: o.Seeds})
	return err
}

// pinned returns the n cores of a crawler, or none if it may run on any.
func (o Options) pinned(n int) []int {
	if o.CPU < 0 {
		return nil
	}
	var cpus []int
	for i := range n {
		cpus = append(cpus, (o.CPU+i)%runtime.NumCPU())
	}
	return cpus
}

// Run runs all crawlers and prints the report.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp("", "peerd-compare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	b := &bench{census: census{number: map[string]int{}}, scratch: scratch}
	if o.AccessLog != "" {
		b.log = &accessLog{o.AccessLog}
	}
	if len(o.Roots) > 0 {
		var cpus []int
		if o.ServerCPU >= 0 {
			cpus = []int{o.ServerCPU % runtime.NumCPU()}
		}
		srv, err := startNginx(ctx, o.Roots, o.TLS, scratch, cpus)
		if err != nil {
			return err
		}
		defer srv.stop()
		b.roots = srv.cert.file
		b.log, o.Seeds, o.Allow = &srv.log, srv.seeds, append(o.Allow, loopback)
	}
	samples, notes, err := b.rounds(ctx, o, stderr)
	if err != nil {
		return err
	}
	r := b.makeReport(samples)
	r.Go, r.Cores, r.Notes = runtime.Version(), o.placement(), append(r.Notes, notes...)
	if o.JSON {
		return r.writeJSON(stdout)
	}
	return r.writeTable(stdout)
}

// placement describes which cores the processes ran on.
func (o Options) placement() string {
	s := fmt.Sprintf("crawlers on core %d of %d", o.CPU, runtime.NumCPU())
	switch {
	case o.CPU < 0 || !canPin:
		s = fmt.Sprintf("crawlers on any of %d cores", runtime.NumCPU())
	case len(o.Roots) == 0:
		s += ", the server elsewhere"
	case o.ServerCPU >= 0:
		s += fmt.Sprintf(", the server on core %d", o.ServerCPU%runtime.NumCPU())
	}
	return s
}

// rounds runs the crawlers in turn, so that changes on the machine affect all of them.
func (b *bench) rounds(
	ctx context.Context, o Options, stderr io.Writer,
) (samples []sample, notes []string, err error) {
	for _, p := range []struct {
		kind, folder string
		program      *string
	}{{"peerd", "cmd/peerd", &o.Peerd}, {"colly", "lab/compare/colly", &o.Colly}} {
		if *p.program == "" && slices.Contains(o.Only, p.kind) {
			if *p.program, err = build.Program(ctx, p.folder, b.scratch); err != nil {
				return nil, nil,
					fmt.Errorf("%w; give the program with --%s, or leave it out with --only", err,
						p.kind)
			}
		}
	}
	note := func(f string, a ...any) { notes = append(notes, fmt.Sprintf(f, a...)) }
	all, err := crawlers(ctx, o, note)
	if err != nil {
		return nil, nil, err
	}
	for round := 1; round <= o.Runs; round++ {
		for _, c := range all {
			s, err := b.measure(ctx, c, round)
			if err != nil {
				return nil, nil, err
			}
			fmt.Fprintf(stderr, "round %d: %s: %d pages, %.0f a CPU-second\n", round, c.name(),
				s.Pages, s.perCPU())
			samples = append(samples, s)
		}
	}
	return samples, notes, nil
}
