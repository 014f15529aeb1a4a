package soak

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// QueueOptions configure Queue.
type QueueOptions struct {
	// Dir is the directory in which a temporary directory for the store is created.
	Dir         string
	URLs, Hosts int
	// Work is how long entries are taken out.
	Work    time.Duration
	Profile Profiles
	// Self is the command that calls RunChild; a step and its options are appended.
	Self []string `json:"-"`
}

// Validate returns an error that names the first invalid option.
func (o QueueOptions) Validate() error {
	if o.Hosts < 1 || o.Hosts > 1<<24 {
		return fmt.Errorf("--hosts %d: want 1 to %d", o.Hosts, 1<<24)
	}
	return nil
}

// queueFigures are the measurements of one child process.
type queueFigures struct {
	Open    float64 `json:"open_s"`      // store.Open
	Load    float64 `json:"load_s"`      // frontier.New, or all pushes
	First   float64 `json:"first_job_s"` // from the start of Open to the first job with its entry
	PerLoad float64 `json:"urls_per_second"`
	PerWork float64 `json:"jobs_per_second"` // Next, removal, Release
	Pending int64   `json:"pending"`
	RSS     int64   `json:"rss_bytes"`
	Idle    int64   `json:"idle_rss_bytes"` // after a collection that returns memory to the system
	HWM     int64   `json:"hwm_bytes"`
	Worked  int64   `json:"worked_hwm_bytes"` // HWM after the work
	Heap    uint64  `json:"heap_bytes"`       // live objects
}

// Queue fills a store, reopens it, each in a process of its own, and prints the
// measurements.
func Queue(ctx context.Context, o QueueOptions, out io.Writer) error {
	if err := o.Validate(); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "peerd-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, step := range []string{"fill", "reopen"} {
		f, err := queueChild(ctx, step, o, dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: open %.3f s, load %.3f s (%.0f URLs/s), first job after %.3f s; "+
			"memory %s (idle %s, heap %s, peak %s); then %.0f jobs/s, peak %s; "+
			"disk %s; %d queued\n",
			step, f.Open, f.Load, f.PerLoad, f.First,
			size(f.RSS), size(f.Idle), size(int64(f.Heap)), size(f.HWM), f.PerWork,
			size(f.Worked), size(diskUse(dir)), f.Pending)
	}
	return nil
}

// queueChild runs one step on the store in dir in a child process.
func queueChild(
	ctx context.Context, step string, o QueueOptions, dir string,
) (f queueFigures, err error) {
	o.Dir, o.Profile = dir, o.Profile.of(step)
	cmd, _, err := childCommand(ctx, o.Self, step, o)
	if err != nil {
		return f, err
	}
	output, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%s: %w", step, err)
	}
	if err := json.Unmarshal(output, &f); err != nil {
		return f, fmt.Errorf("%s: %w", step, err)
	}
	return f, nil
}

// runQueue is a child process: it fills a new store or opens an existing one, takes
// entries out, and prints queueFigures as JSON.
func runQueue(ctx context.Context, fill bool, options string, stdout io.Writer) (err error) {
	var o QueueOptions
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	stop, err := o.Profile.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var figures queueFigures
	begin := time.Now()
	db, err := store.Open(o.Dir, store.Options{})
	if err != nil {
		return err
	}
	running, stopDB := context.WithCancel(ctx)
	var maintenance sync.WaitGroup
	maintenance.Go(func() { _ = db.Run(running) })
	defer func() {
		stopDB()
		maintenance.Wait()
		err = errors.Join(err, db.Close())
	}()
	figures.Open = time.Since(begin).Seconds()
	loading := time.Now()
	f, err := frontier.New(frontier.Config{DB: db}, func(netip.Prefix) bool { return true })
	if err != nil {
		return err
	}
	if fill {
		if err := o.fill(ctx, f); err != nil {
			return err
		}
	}
	figures.Load = time.Since(loading).Seconds()
	figures.PerLoad = float64(f.Stats().Pending) / figures.Load
	if err := firstJob(ctx, f); err != nil {
		return err
	}
	figures.First = time.Since(begin).Seconds()
	figures.measureMemory()
	if figures.PerWork, err = dequeue(ctx, db, f, o.Work); err != nil {
		return err
	}
	_, figures.Worked = memory(os.Getpid())
	figures.Pending = f.Stats().Pending
	return json.NewEncoder(stdout).Encode(figures)
}

// measureMemory reads the memory in use, before and after free memory is returned to
// the system.
func (f *queueFigures) measureMemory() {
	pid := os.Getpid()
	f.RSS, f.HWM = memory(pid)
	freeMemory()
	f.Idle, _ = memory(pid)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap = m.HeapAlloc
}

func queueHost(i int) (string, netip.Addr) {
	return fmt.Sprintf("www.host-%05d.example", i),
		netip.AddrFrom4([4]byte{11 + byte(i>>22), byte(i >> 14), byte(i >> 6), byte(i<<2) + 2})
}

// The numbers of links on a page that fill generates, to its own host and to others.
// One page is one transaction, as in the crawler.
const (
	ownLinks   = 40
	otherLinks = 8
)

// fill adds the hosts and queues the URLs. It stops early with the error of ctx.
func (o QueueOptions) fill(ctx context.Context, f *frontier.Frontier) error {
	for i := range o.Hosts {
		name, addr := queueHost(i)
		if err := f.AddHost(name, store.SubnetOf(addr), addr, time.Time{}); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	next := make([]int, o.Hosts) // the number of each host's next URL
	for left, page := o.URLs, 0; left > 0; page++ {
		links := make(map[string][]store.Entry)
		var hosts []string
		for i := range min(left, ownLinks+otherLinks) {
			h := page % o.Hosts
			if i >= ownLinks {
				h = rng.IntN(o.Hosts)
			}
			name, _ := queueHost(h)
			if links[name] == nil {
				hosts = append(hosts, name)
			}
			links[name] = append(links[name], store.Entry{URL: queueURL(name, next[h]), Depth: 3})
			next[h]++
			left--
		}
		if err := errors.Join(ctx.Err(), pushAll(f, hosts, links)); err != nil {
			return err
		}
	}
	return nil
}

// queueURL returns a URL of typical length.
func queueURL(host string, n int) store.URL {
	return store.URL(fmt.Sprintf("http://%s/documentation/section-%d/a-page-with-a-title-%d.html",
		host, n/50, n))
}

func pushAll(f *frontier.Frontier, hosts []string, links map[string][]store.Entry) error {
	return f.Update(hosts, func(_ *store.Tx, push frontier.Push) error {
		for _, h := range hosts {
			for _, e := range links[h] {
				if fresh, err := push(h, e); err != nil || !fresh {
					return fmt.Errorf("push %s: new = %v: %w", e.URL, fresh, err)
				}
			}
		}
		return nil
	})
}

// firstJob waits for one job and returns it to the frontier.
func firstJob(ctx context.Context, f *frontier.Frontier) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	j, err := f.Next(ctx)
	if err != nil {
		return err
	}
	f.Return(j, false)
	return nil
}

// queueWorkers is the number of concurrent workers that take entries out, the default
// of a peer.
const queueWorkers = 64

// dequeue takes entries out as the crawler does, without fetching, and returns the
// number per second. It stops before the queue is empty.
func dequeue(
	ctx context.Context, db *store.DB, f *frontier.Frontier, length time.Duration,
) (rate float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	left := f.Stats().Pending - queueWorkers
	var done atomic.Int64
	var wg sync.WaitGroup
	var once sync.Once
	begin := time.Now()
	for range queueWorkers {
		wg.Go(func() {
			for done.Load() < left {
				j, e := f.Next(ctx)
				if e == nil {
					e = db.Update(func(tx *store.Tx) error { return tx.Remove(j.Host, j.Entry) })
					f.Release(j, e == nil, 0, 0)
				}
				if e != nil {
					if ctx.Err() == nil {
						once.Do(func() { err = e })
						cancel()
					}
					return
				}
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return float64(done.Load()) / time.Since(begin).Seconds(), err
}
