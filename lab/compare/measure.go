package compare

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// A sample is one run of one crawler.
type sample struct {
	Crawler  string  `json:"crawler"`
	Setting  string  `json:"setting,omitempty"`
	Round    int     `json:"round"`
	Pages    int     `json:"pages"`
	Twice    int     `json:"fetched_twice"`
	Requests int     `json:"requests,omitempty"` // 0 without the server's log
	Failed   int64   `json:"failed"`             // without an answer, as the crawler reports
	CPU      float64 `json:"cpu_s"`              // user and system time of the process
	Wall     float64 `json:"wall_s"`             // from its start to its end
	Peak     int64   `json:"peak_rss_bytes"`
	Noise    float64 `json:"noise"` // use of the crawler's cores by other processes, in cores

	crawler crawler
	visits  visits
}

func (s sample) perCPU() float64  { return float64(s.Pages) / s.CPU }
func (s sample) perWall() float64 { return float64(s.Pages) / s.Wall }

// bench is the state shared by all runs.
type bench struct {
	log     *accessLog // nil: the crawlers' own counts are used
	census  census
	scratch string
	roots   string // the file of the certificates that crawlers trust; "": those of the system
}

// measure runs a crawler once.
func (b *bench) measure(ctx context.Context, c crawler, round int) (sample, error) {
	s := sample{Crawler: c.Kind, Setting: c.Setting, Round: round, crawler: c}
	dir, err := os.MkdirTemp(b.scratch, "run-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	var offset int64
	if b.log != nil {
		if offset, err = b.log.end(); err != nil {
			return s, err
		}
	}
	out, err := s.run(ctx, dir, b.roots)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.name(), err)
	}
	said, err := c.parse(out)
	if err != nil {
		return s, fmt.Errorf("%s: %w", c.name(), err)
	}
	s.Failed, s.Pages = said.Failed, int(said.Pages)
	if b.log == nil {
		return s, nil
	}
	if err := b.log.settle(ctx); err != nil {
		return s, err
	}
	if s.visits, err = b.census.count(*b.log, offset, c.agent); err != nil {
		return s, err
	}
	s.Pages, s.Twice, s.Requests = s.visits.pages, s.visits.twice, s.visits.requests
	return s, nil
}

// run runs the process until it exits and returns its output.
func (s *sample) run(ctx context.Context, dir, roots string) ([]byte, error) {
	args := s.crawler.command(dir)
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if roots != "" {
		cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+roots) // see crypto/x509
	}
	before, begin := busy(s.crawler.cpus), time.Now()
	if err := start(cmd, s.crawler.cpus); err != nil {
		return nil, err
	}
	stop := s.watch(cmd.Process.Pid)
	err := cmd.Wait()
	stop()
	s.Wall = time.Since(begin).Seconds()
	s.CPU = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	s.Noise = max(0, busy(s.crawler.cpus)-before-s.CPU) / s.Wall
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, errs.Bytes())
	}
	return out.Bytes(), nil
}

// watch records the peak memory of a process until stop is called.
func (s *sample) watch(pid int) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		t := time.NewTicker(20 * time.Millisecond)
		defer t.Stop()
		for {
			s.Peak = max(s.Peak, peakMemory(pid))
			select {
			case <-quit:
				return
			case <-t.C:
			}
		}
	}()
	return func() { close(quit); <-done }
}
