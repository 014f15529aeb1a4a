package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"

	"peerd/node"
	"peerd/node/config"
)

// profiles are the files that a run's profiles go to; "" is none.
type profiles struct{ cpu, memory string }

func (p *profiles) flags(fs *flag.FlagSet) {
	fs.StringVar(&p.cpu, "cpuprofile", "", "`file` for a profile of processor time")
	fs.StringVar(&p.memory, "memprofile", "", "`file` for a profile of all allocations; it slows the run down")
}

// of names the files of one step of several.
func (p profiles) of(step string) profiles {
	for _, f := range []*string{&p.cpu, &p.memory} {
		if *f != "" {
			*f += "." + step
		}
	}
	return p
}

// start begins to profile; the function that it returns ends it and writes.
func (p profiles) start() (stop func() error, err error) {
	if p.memory != "" {
		runtime.MemProfileRate = 64 << 10
	}
	var cpu *os.File
	if p.cpu != "" {
		if cpu, err = os.Create(p.cpu); err != nil {
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
		if p.memory != "" {
			f, err := os.Create(p.memory)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
		}
		return errors.Join(errs...)
	}, nil
}

// crawlOnce crawls the seeds' hosts without politeness under the profiler.
func crawlOnce(ctx context.Context, seeds []string, allow []netip.Prefix, p profiles, out io.Writer) error {
	stop, err := p.start()
	if err != nil {
		return err
	}
	o := node.CrawlOptions{
		Seeds: seeds, Scope: "host", Config: config.Default(), Rules: config.DefaultProfile(), UserAgent: config.UserAgent(""),
	}
	o.Config.Crawl.AllowNet, o.Config.Crawl.MinDelay = allow, config.Duration{}
	sum, err := node.Crawl(ctx, o)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	_, most := memory(os.Getpid())
	_, err = fmt.Fprintf(out, "%d pages, %s, %.1f s, at most %s in memory\n", sum.Pages, size(sum.Bytes), sum.Took.Seconds(), size(most))
	return err
}

// size prints bytes.
func size(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
