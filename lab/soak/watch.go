package soak

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
	"time"

	"golang.org/x/sync/errgroup"
)

// A reading is a set of measurements of the peer at one time.
type reading struct {
	at    time.Duration // since the start of the peer
	rss   int64
	files int
	disk  int64
	rate  float64 // pages per second since the previous reading
	peerFigures
}

// WatchOptions configure Watch.
type WatchOptions struct {
	// Out is the directory for soak.csv and soak.svg, and for the peer's temporary home
	// directory.
	Out string
	// Length is how long the peer runs, Every the time between two readings, Delay the
	// minimum time between two requests to a site.
	Length, Every, Delay time.Duration
	Sites                int
	// Limit is the allowed growth of memory in MiB per hour; 0 is no limit.
	Limit   float64
	Profile Profiles
	// Self is the command that calls RunChild; a step and its options are appended.
	Self []string
}

// Validate returns an error if an option is invalid.
func (o WatchOptions) Validate() error {
	if o.Sites < 1 || o.Sites > maxSites || o.Every <= 0 || o.Length <= 0 {
		return fmt.Errorf("want 1 to %d sites and positive durations", maxSites)
	}
	return nil
}

// Watch runs the web and the peer, writes soak.csv and soak.svg, and prints readings
// and the result to out. It returns an error if memory grows faster than o.Limit.
func Watch(ctx context.Context, o WatchOptions, out io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	home, err := os.MkdirTemp(o.Out, "home-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	web, err := listen(o.Sites)
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
	if err := writeAll(o.Out, readings); err != nil {
		return err
	}
	v := judge(readings)
	fmt.Fprintln(out, v)
	if o.Limit > 0 && v.slope-2*v.stderr > o.Limit {
		return fmt.Errorf("memory grew by more than %.1f MiB per hour", o.Limit)
	}
	return nil
}

// watch runs the peer for o.Length and collects readings.
func (o WatchOptions) watch(
	ctx context.Context, home string, port int, out io.Writer,
) ([]reading, error) {
	cmd, stop, err := childCommand(ctx, o.Self, "peer", peerOptions{
		Home: home, Sites: o.Sites, Port: port,
		Delay: o.Delay, Every: o.Every, Profile: o.Profile,
	})
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end := time.AfterFunc(o.Length, func() { _ = stop() })
	defer end.Stop()
	var readings []reading
	begin := time.Now()
	for sc := bufio.NewScanner(output); sc.Scan(); {
		r := reading{files: openFiles(cmd.Process.Pid), disk: diskUse(home)}
		r.rss, _ = memory(cmd.Process.Pid)
		if err := json.Unmarshal(sc.Bytes(), &r.peerFigures); err != nil {
			_ = stop()
			err = fmt.Errorf("read measurements of the peer: %w", err)
			return nil, errors.Join(err, cmd.Wait())
		}
		r.at = time.Since(begin)
		readings = appendReading(readings, r)
		if n := len(readings); n%12 == 0 {
			fmt.Fprintln(out, readings[n-1])
		}
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("peer: %w", err)
	}
	return readings, ctx.Err()
}

// appendReading appends r after setting its rate.
func appendReading(readings []reading, r reading) []reading {
	if len(readings) > 0 {
		last := readings[len(readings)-1]
		if d := (r.at - last.at).Seconds(); d > 0 {
			r.rate = float64(r.Pages-last.Pages) / d
		}
	}
	return append(readings, r)
}

// String returns the reading as one line.
func (r reading) String() string {
	return fmt.Sprintf("%6.1f min: memory %s, heap %s, %d goroutines, %d files, disk %s, "+
		"%d pages (%.0f/s), %d queued, %d subnets",
		r.at.Minutes(), size(r.rss), size(int64(r.Heap)), r.Goroutines, r.files, size(r.disk),
		r.Pages, r.rate, r.Queued, r.Subnets)
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
	rows := [][]string{{"seconds", "rss_bytes", "heap_bytes", "goroutines", "open_files",
		"disk_bytes", "pages", "pages_per_second", "queued", "subnets", "failed"}}
	for _, r := range readings {
		rows = append(rows, []string{
			fmt.Sprintf("%.1f", r.at.Seconds()), fmt.Sprint(r.rss), fmt.Sprint(r.Heap),
			fmt.Sprint(r.Goroutines), fmt.Sprint(r.files),
			fmt.Sprint(r.disk), fmt.Sprint(r.Pages), fmt.Sprintf("%.1f", r.rate),
			fmt.Sprint(r.Queued), fmt.Sprint(r.Subnets), fmt.Sprint(r.Failed),
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
	minutes := series(func(r reading) float64 { return r.at.Minutes() })
	return drawCharts(w, minutes, []chart{
		{"memory, MiB", []line{
			{"resident", series(func(r reading) float64 { return mib(r.rss) })},
			{"heap", series(func(r reading) float64 { return mib(int64(r.Heap)) })},
		}},
		{"disk, MiB", []line{{"store", series(func(r reading) float64 { return mib(r.disk) })}}},
		{"pages per second", []line{
			{"fetched", series(func(r reading) float64 { return r.rate })},
		}},
		{"queue, thousand URLs", []line{{"queued", series(func(r reading) float64 {
			return float64(r.Queued) / 1000
		})}}},
		{"goroutines and open files", []line{
			{"goroutines", series(func(r reading) float64 { return float64(r.Goroutines) })},
			{"files", series(func(r reading) float64 { return float64(r.files) })},
		}},
	})
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// A trend summarises the second half of a run. Slopes are per hour.
type trend struct {
	slope, stderr float64 // of the resident memory, MiB
	heap          float64 // slope of the heap, MiB
	goroutines    float64 // slope
	files         float64 // slope
	n             int     // number of readings
	peak          int64   // resident memory over the whole run, bytes
	pages         int64   // over the whole run
	rate          float64 // pages per second
}

// judge computes the trend of the second half of readings.
func judge(readings []reading) trend {
	half := readings[len(readings)/2:]
	v := trend{n: len(half)}
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
		ys[0][i], ys[1][i], ys[2][i], ys[3][i] = mib(r.rss), mib(int64(r.Heap)),
			float64(r.Goroutines), float64(r.files)
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

// String returns the trend as one line.
func (v trend) String() string {
	return fmt.Sprintf("second half (%d readings), per hour: memory %+.1f MiB "+
		"(standard error %.1f), heap %+.1f MiB, goroutines %+.1f, files %+.1f; "+
		"peak memory %s; %d pages in total, %.0f per second",
		v.n, v.slope, v.stderr, v.heap, v.goroutines, v.files, size(v.peak), v.pages, v.rate)
}
