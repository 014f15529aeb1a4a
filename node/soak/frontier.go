package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
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

// queueOptions say what to fill a store with.
type queueOptions struct {
	dir         string
	urls, hosts int
	work        time.Duration // for how long entries are taken out
	profile     profiles
}

func (o *queueOptions) flags(fs *flag.FlagSet) {
	fs.StringVar(&o.dir, "store", "", "")
	fs.IntVar(&o.urls, "urls", 0, "")
	fs.IntVar(&o.hosts, "hosts", 0, "")
	fs.DurationVar(&o.work, "work", 10*time.Second, "")
	o.profile.flags(fs)
}

// queueFigures is what one of the two children reports.
type queueFigures struct {
	Open    float64 `json:"open_s"`      // store.Open
	Load    float64 `json:"load_s"`      // frontier.New, or all pushes
	First   float64 `json:"first_job_s"` // from the beginning of Open to the first job, entry read
	PerLoad float64 `json:"urls_per_second"`
	PerWork float64 `json:"jobs_per_second"` // Next, removal, Release
	Pending int64   `json:"pending"`
	RSS     int64   `json:"rss_bytes"`
	Idle    int64   `json:"idle_rss_bytes"` // after a collection that gives back all it can
	HWM     int64   `json:"hwm_bytes"`
	Worked  int64   `json:"worked_hwm_bytes"` // HWM after the work
	Heap    uint64  `json:"heap_bytes"`       // alive
}

// fillAndReopen runs both children on one store.
func fillAndReopen(ctx context.Context, o queueOptions, out io.Writer) error {
	dir, err := os.MkdirTemp(o.dir, "peerd-soak-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, step := range []string{"fill", "reopen"} {
		f, err := queueChild(ctx, step, o, dir)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s: open %.3f s, load %.3f s (%.0f URLs/s), first job after %.3f s; %s in memory (%s idle, heap %s), at most %s; "+
			"then %.0f jobs/s, at most %s; disk %s; %d queued\n",
			step, f.Open, f.Load, f.PerLoad, f.First, size(f.RSS), size(f.Idle), size(int64(f.Heap)), size(f.HWM),
			f.PerWork, size(f.Worked), size(diskUse(dir)), f.Pending)
	}
	return nil
}

// queueChild runs one step on the store in dir, in a process of its own.
func queueChild(ctx context.Context, step string, o queueOptions, dir string) (f queueFigures, err error) {
	p := o.profile.of(step)
	cmd, _, err := again(ctx, step, "--store", dir, "--urls", fmt.Sprint(o.urls), "--hosts", fmt.Sprint(o.hosts),
		"--work", o.work.String(), "--cpuprofile", p.cpu, "--memprofile", p.memory)
	if err != nil {
		return f, err
	}
	said, err := cmd.Output()
	if err != nil {
		return f, fmt.Errorf("%s: %w", step, err)
	}
	if err := json.Unmarshal(said, &f); err != nil {
		return f, fmt.Errorf("%s: %w", step, err)
	}
	return f, nil
}

// runQueue is a child: it fills a new store, or opens the one that is there,
// and then takes entries out.
func runQueue(ctx context.Context, fill bool, args []string, stdout io.Writer) (err error) {
	var o queueOptions
	fs := flag.NewFlagSet("queue", flag.ContinueOnError)
	o.flags(fs)
	if err := fs.Parse(args); err != nil {
		return err
	}
	stop, err := o.profile.start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	var figures queueFigures
	begin := time.Now()
	db, err := store.Open(o.dir, store.Options{})
	if err != nil {
		return err
	}
	keep, stopKeeping := context.WithCancel(ctx)
	var house sync.WaitGroup
	house.Go(func() { _ = db.Run(keep) })
	defer func() {
		stopKeeping()
		house.Wait()
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
	figures.weigh()
	if figures.PerWork, err = takeOut(ctx, db, f, o.work); err != nil {
		return err
	}
	_, figures.Worked = memory(os.Getpid())
	figures.Pending = f.Stats().Pending
	return json.NewEncoder(stdout).Encode(figures)
}

// weigh reads the memory, as it is and with all given back that can be.
func (f *queueFigures) weigh() {
	pid := os.Getpid()
	f.RSS, f.HWM = memory(pid)
	freeMemory()
	f.Idle, _ = memory(pid)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	f.Heap = m.HeapAlloc
}

func queueHost(i int) (string, netip.Addr) {
	return fmt.Sprintf("www.host-%05d.example", i), netip.AddrFrom4([4]byte{11 + byte(i>>22), byte(i >> 14), byte(i >> 6), byte(i<<2) + 2})
}

// The links of one page, as fill makes them: so many to its own host, so many
// to others. One page is one transaction, as in the crawler.
const (
	ownLinks   = 40
	otherLinks = 8
)

// fill adds the hosts and queues the URLs, or ends early with ctx's error.
func (o queueOptions) fill(ctx context.Context, f *frontier.Frontier) error {
	for i := range o.hosts {
		name, addr := queueHost(i)
		if err := f.AddHost(name, store.SubnetOf(addr), addr); err != nil {
			return err
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	next := make([]int, o.hosts) // the number of each host's next URL
	for left, page := o.urls, 0; left > 0; page++ {
		links := make(map[string][]store.Entry)
		var hosts []string
		for i := range min(left, ownLinks+otherLinks) {
			h := page % o.hosts
			if i >= ownLinks {
				h = rng.IntN(o.hosts)
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

// queueURL is about as long as URLs are.
func queueURL(host string, n int) store.URL {
	return store.URL(fmt.Sprintf("http://%s/documentation/section-%d/a-page-with-a-title-%d.html", host, n/50, n))
}

func pushAll(f *frontier.Frontier, hosts []string, links map[string][]store.Entry) error {
	return f.Update(hosts, func(_ *store.Tx, push frontier.Push) error {
		for _, h := range hosts {
			for _, e := range links[h] {
				if fresh, err := push(h, e); err != nil || !fresh {
					return fmt.Errorf("push %s: new %v: %w", e.URL, fresh, err)
				}
			}
		}
		return nil
	})
}

// firstJob waits for one job and gives it back.
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

// queueWorkers is how many take entries out at once: as many as a peer has by
// default.
const queueWorkers = 64

// takeOut takes entries out as the crawler does, without fetching, and returns
// how many a second. It ends before the queue does.
func takeOut(ctx context.Context, db *store.DB, f *frontier.Frontier, length time.Duration) (rate float64, err error) {
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
