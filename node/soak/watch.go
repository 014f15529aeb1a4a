package main

import (
	"bufio"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
)

// A reading is all that is known of the peer at one time.
type reading struct {
	at    time.Duration // since the peer was started
	rss   int64
	files int
	disk  int64
	rate  float64 // pages a second since the reading before
	inside
}

// watchOptions say how to soak.
type watchOptions struct {
	out          string
	length       time.Duration
	every, delay time.Duration
	sites        int
	limit        float64 // MiB an hour that the memory may grow by; 0: no judgement
	profile      profiles
}

// soak runs web and peer, and writes everything down.
func soak(ctx context.Context, o watchOptions, out io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	home, err := os.MkdirTemp(o.out, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	web, err := listen(o.sites)
	if err != nil {
		return err
	}
	var readings []reading
	g, gctx := errgroup.WithContext(ctx)
	serving, stopServing := context.WithCancel(gctx)
	g.Go(func() error { return web.serve(serving) })
	g.Go(func() (err error) {
		defer stopServing()
		readings, err = o.watch(gctx, home, web.port, out)
		return err
	})
	if err := g.Wait(); err != nil {
		return err
	}
	if err := writeAll(o.out, readings); err != nil {
		return err
	}
	v := judge(readings)
	fmt.Fprintln(out, v)
	if o.limit > 0 && v.slope-2*v.stderr > o.limit {
		return fmt.Errorf("memory grows by more than %.1f MiB an hour", o.limit)
	}
	return nil
}

// watch runs the peer for o.length and reads its figures.
func (o watchOptions) watch(ctx context.Context, home string, port int, out io.Writer) ([]reading, error) {
	cmd, stop, err := again(ctx, "peer", "--home", home, "--sites", strconv.Itoa(o.sites), "--port", strconv.Itoa(port),
		"--min-delay", o.delay.String(), "--every", o.every.String(), "--cpuprofile", o.profile.cpu, "--memprofile", o.profile.memory)
	if err != nil {
		return nil, err
	}
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := time.AfterFunc(o.length, func() { _ = stop() })
	defer end.Stop()
	var readings []reading
	begin := time.Now()
	for sc := bufio.NewScanner(said); sc.Scan(); {
		r := reading{files: openFiles(cmd.Process.Pid), disk: diskUse(home)}
		r.rss, _ = memory(cmd.Process.Pid)
		if err := json.Unmarshal(sc.Bytes(), &r.inside); err != nil {
			_ = stop()
			return nil, errors.Join(fmt.Errorf("the peer's figures: %w", err), cmd.Wait())
		}
		r.at = time.Since(begin)
		readings = follow(readings, r)
		if n := len(readings); n%12 == 0 {
			fmt.Fprintln(out, readings[n-1])
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return readings, ctx.Err()
}

// follow appends r, with the rate since the reading before.
func follow(readings []reading, r reading) []reading {
	if len(readings) > 0 {
		last := readings[len(readings)-1]
		if d := (r.at - last.at).Seconds(); d > 0 {
			r.rate = float64(r.Pages-last.Pages) / d
		}
	}
	return append(readings, r)
}

// String is one line for who waits.
func (r reading) String() string {
	return fmt.Sprintf("%6.1f min: %s in memory, heap %s, %d goroutines, %d files, disk %s, %d pages (%.0f/s), %d queued, %d subnets",
		r.at.Minutes(), size(r.rss), size(int64(r.Heap)), r.Goroutines, r.files, size(r.disk), r.Pages, r.rate, r.Queued, r.Subnets)
}

// writeAll writes soak.csv and soak.svg.
func writeAll(dir string, readings []reading) error {
	f, err := os.Create(filepath.Join(dir, "soak.csv"))
	if err != nil {
		return err
	}
	if err := errors.Join(writeCSV(f, readings), f.Close()); err != nil {
		return err
	}
	if f, err = os.Create(filepath.Join(dir, "soak.svg")); err != nil {
		return err
	}
	return errors.Join(writeSVG(f, readings), f.Close())
}

func writeCSV(w io.Writer, readings []reading) error {
	c := csv.NewWriter(w)
	rows := [][]string{{"seconds", "rss_bytes", "heap_bytes", "goroutines", "open_files", "disk_bytes", "pages", "pages_per_second", "queued", "subnets", "failed"}}
	for _, r := range readings {
		rows = append(rows, []string{
			fmt.Sprintf("%.1f", r.at.Seconds()), fmt.Sprint(r.rss), fmt.Sprint(r.Heap), fmt.Sprint(r.Goroutines), fmt.Sprint(r.files),
			fmt.Sprint(r.disk), fmt.Sprint(r.Pages), fmt.Sprintf("%.1f", r.rate), fmt.Sprint(r.Queued), fmt.Sprint(r.Subnets), fmt.Sprint(r.Failed),
		})
	}
	return c.WriteAll(rows)
}

func writeSVG(w io.Writer, readings []reading) error {
	series := func(f func(reading) float64) []float64 {
		y := make([]float64, len(readings))
		for i, r := range readings {
			y[i] = f(r)
		}
		return y
	}
	return drawChart(w, series(func(r reading) float64 { return r.at.Minutes() }), []panel{
		{"memory, MiB", []line{
			{"resident", series(func(r reading) float64 { return mib(r.rss) })},
			{"heap", series(func(r reading) float64 { return mib(int64(r.Heap)) })},
		}},
		{"disk, MiB", []line{{"store", series(func(r reading) float64 { return mib(r.disk) })}}},
		{"pages a second", []line{{"fetched", series(func(r reading) float64 { return r.rate })}}},
		{"queue, thousand URLs", []line{{"queued", series(func(r reading) float64 { return float64(r.Queued) / 1000 })}}},
		{"goroutines and open files", []line{
			{"goroutines", series(func(r reading) float64 { return float64(r.Goroutines) })},
			{"files", series(func(r reading) float64 { return float64(r.files) })},
		}},
	})
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// A verdict is what the second half of a run says.
type verdict struct {
	slope, stderr float64 // of the resident memory, MiB an hour
	heap          float64 // of the heap, MiB an hour
	goroutines    float64 // an hour
	files         float64 // an hour
	n             int
	peak          int64
	pages         int64
	rate          float64
}

func judge(readings []reading) verdict {
	half := readings[len(readings)/2:]
	v := verdict{n: len(half)}
	if len(half) == 0 {
		return v
	}
	hours := make([]float64, len(half))
	ys := make([][]float64, 4)
	for i := range ys {
		ys[i] = make([]float64, len(half))
	}
	for i, r := range half {
		hours[i] = r.at.Hours()
		ys[0][i], ys[1][i], ys[2][i], ys[3][i] = mib(r.rss), mib(int64(r.Heap)), float64(r.Goroutines), float64(r.files)
	}
	v.slope, v.stderr = slope(hours, ys[0])
	v.heap, _ = slope(hours, ys[1])
	v.goroutines, _ = slope(hours, ys[2])
	v.files, _ = slope(hours, ys[3])
	for _, r := range readings {
		v.peak = max(v.peak, r.rss)
	}
	first, last := half[0], half[len(half)-1]
	v.pages = last.Pages
	if d := (last.at - first.at).Seconds(); d > 0 {
		v.rate = float64(last.Pages-first.Pages) / d
	}
	return v
}

// String is the verdict in words.
func (v verdict) String() string {
	return fmt.Sprintf("second half (%d readings): memory %+.1f MiB an hour (standard error %.1f), heap %+.1f MiB, goroutines %+.1f, files %+.1f; "+
		"at most %s in memory; %d pages in all, %.0f a second",
		v.n, v.slope, v.stderr, v.heap, v.goroutines, v.files, size(v.peak), v.pages, v.rate)
}
