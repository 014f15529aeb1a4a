package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"

	"peerd/node"
	"peerd/node/config"
)

// Profiles names the files for profiles; "" is none.
type Profiles struct {
	CPU string
	// Memory is the file for a profile of all allocations, which slows the run down.
	Memory string
}

// of returns the file names for one of several steps.
func (p Profiles) of(step string) Profiles {
	for _, f := range []*string{&p.CPU, &p.Memory} {
		if *f != "" {
			*f += "." + step
		}
	}
	return p
}

// start starts profiling; stop ends it and writes the files.
func (p Profiles) start() (stop func() error, err error) {
	if p.Memory != "" {
		runtime.MemProfileRate = 64 << 10
	}
	var cpu *os.File
	if p.CPU != "" {
		if cpu, err = os.Create(p.CPU); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, errors.Join(err, cpu.Close())
		}
	}
	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if p.Memory != "" {
			f, err := os.Create(p.Memory)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
		}
		return errors.Join(errs...)
	}, nil
}

// Crawl crawls the seeds' hosts without politeness, writes profiles, and prints a
// summary to out.
func Crawl(
	ctx context.Context, seeds []string, allow []netip.Prefix, p Profiles, out io.Writer,
) error {
	stop, err := p.start()
	if err != nil {
		return err
	}
	o := node.CrawlOptions{
		Seeds: seeds, Scope: "host", Config: config.Default(), Rules: config.DefaultProfile(),
		UserAgent: config.UserAgent(""),
	}
	o.Config.Crawl.AllowNet, o.Config.Crawl.MinDelay = allow, config.Duration{}
	o.Config.Crawl.NetworkRequests, o.Config.Crawl.NetworkRate = 0, 0
	sum, err := node.Crawl(ctx, o)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	_, peak := memory(os.Getpid())
	_, err = fmt.Fprintf(out, "%d pages, %s, %.1f s, peak memory %s\n", sum.Pages,
		size(sum.Bytes), sum.Took.Seconds(), size(peak))
	return err
}

// size formats a number of bytes.
func size(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
