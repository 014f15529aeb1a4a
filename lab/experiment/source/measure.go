package source

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"peerd/crawl/crawllet/record"
	"peerd/lab/crawllet"
	"peerd/lab/experiment"
)

// The path to each site. The sources state a bandwidth of more than 1 Mbit/s and no latency.
const (
	rtt = 40 * time.Millisecond
	bps = 1e6
)

// way is a way to crawl.
type way string

const (
	ordinary  way = "ordinary"
	whole     way = "crawllet, whole pages"
	summaries way = "crawllet, summaries"
	// atSites is a peer on the machine of each site, and a collector that copies what they archive.
	atSites way = "peers at the sites"
)

var ways = []way{ordinary, whole, summaries}

// cost is what a crawl of sites has cost.
type cost struct {
	pages      int64
	time       time.Duration
	bytes      int64         // to the sites and from them
	crawlerCPU time.Duration // with the emulation of the paths
	siteCPU    time.Duration
}

// lab is a directory with sites and the reference crawllet.
type lab struct {
	dir    string
	module string
}

func newLab(ctx context.Context) (*lab, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "peerd-lab-source-")
	if err != nil {
		return nil, err
	}
	l := &lab{dir: dir, module: filepath.Join(dir, "crawllet.wasm")}
	if err := crawllet.Build(ctx, l.module, crawllet.WASI...); err != nil {
		l.close()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return l, nil
}

func (l *lab) close() { os.RemoveAll(l.dir) }

// add generates a site and returns its directory.
func (l *lab) add(name string, s siteSize, seed uint64) (string, error) {
	root := filepath.Join(l.dir, name)
	if err := os.MkdirAll(root, 0o755); err != nil {
		return "", err
	}
	return root, s.write(root, seed)
}

// served is a site with the path to it.
type served struct {
	path *crawllet.Path
	site *crawllet.Site
}

// rows crawls the sites in directories in the ways, of which the first is ordinary, and writes a
// row of table for each. It is part i of n of the experiment.
func (l *lab) rows(
	ctx context.Context, out experiment.Out, table, name string, ways []way, roots []string,
	i, n int,
) (map[way]row, error) {
	got := map[way]row{}
	var base cost
	for k, w := range ways {
		out.Progress(float64(i*len(ways)+k)/float64(len(ways)*n), name+", "+string(w))
		var c cost
		var err error
		if w == atSites {
			c, err = l.atSites(ctx, roots, base.pages)
		} else {
			c, err = l.measure(ctx, w, roots)
		}
		if err != nil {
			return nil, err
		}
		if w == ordinary {
			base = c
		}
		got[w] = rowOf(name, w, c, base)
		out.Row(table, got[w])
	}
	return got, nil
}

// measure crawls the sites in directories, all at a time. The sites know the crawllet.
func (l *lab) measure(ctx context.Context, w way, roots []string) (c cost, err error) {
	all := make([]served, len(roots))
	defer func() {
		for _, s := range all {
			if s.path != nil {
				s.path.Close()
			}
			if s.site == nil {
				continue
			}
			used, e := s.site.Stop()
			c.siteCPU += used
			err = errors.Join(err, e)
		}
		err = errors.Join(ctx.Err(), err)
	}()
	for i, root := range roots {
		// Each site has a subnet of its own: a crawl limits the requests to a subnet.
		if all[i], err = l.serve(ctx, root, fmt.Sprintf("127.%d.0.1", i+1)); err != nil {
			return c, err
		}
	}
	before, start := cpuTime(), time.Now()
	c.pages, err = l.crawl(ctx, w, all)
	c.time, c.crawlerCPU = time.Since(start), cpuTime()-before
	for _, s := range all {
		there, back := s.path.Bytes()
		c.bytes += there + back
	}
	return c, err
}

// serve serves a directory. The module is compiled for the first site and known to all.
func (l *lab) serve(ctx context.Context, root, host string) (s served, err error) {
	if s.path, err = crawllet.NewPath(host, rtt, bps); err != nil {
		return s, err
	}
	s.site, err = crawllet.StartSite(ctx, root, s.path.URL, filepath.Join(l.dir, "cache"))
	if err != nil {
		return s, err
	}
	s.path.Connect(s.site.Addr)
	return s, nil
}

// crawl crawls the sites and returns the number of pages.
func (l *lab) crawl(ctx context.Context, w way, all []served) (int64, error) {
	if w == ordinary {
		var urls []string
		for _, s := range all {
			urls = append(urls, s.path.URL)
		}
		res, err := crawllet.Ordinary(ctx, urls...)
		if err == nil && res.Dropped > 0 {
			err = fmt.Errorf("the crawl left out %d URLs: %v", res.Dropped, res.DroppedBy)
		}
		return res.Pages, err
	}
	var pages atomic.Int64
	errs := make([]error, len(all))
	var open sync.WaitGroup
	for i, s := range all {
		open.Go(func() {
			_, errs[i] = crawllet.AtSource(ctx, s.path.URL, l.module, w == summaries,
				func(r record.Record) {
					if r.Status == 200 {
						pages.Add(1)
					}
				})
		})
	}
	open.Wait()
	return pages.Load(), errors.Join(errs...)
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// row is the cost of one crawl, beside that of the ordinary one.
type row struct {
	Site         string  `json:"site"`
	Way          way     `json:"way"`
	Pages        int64   `json:"pages"`
	Seconds      float64 `json:"seconds"`
	Faster       float64 `json:"faster"` // time of the ordinary crawl ÷ this
	Bytes        int64   `json:"bytes"`
	BytesShare   float64 `json:"bytes_share"` // of the ordinary crawl
	CrawlerCPU   float64 `json:"crawler_cpu"` // s
	SiteCPU      float64 `json:"site_cpu"`    // s
	TotalCPUFrom float64 `json:"cpu_ratio"`   // CPU of both ÷ that of the ordinary crawl
}

func rowOf(site string, w way, c, base cost) row {
	return row{
		Site: site, Way: w, Pages: c.pages, Seconds: c.time.Seconds(),
		Faster: base.time.Seconds() / c.time.Seconds(), Bytes: c.bytes,
		BytesShare: float64(c.bytes) / float64(base.bytes),
		CrawlerCPU: c.crawlerCPU.Seconds(), SiteCPU: c.siteCPU.Seconds(),
		TotalCPUFrom: (c.crawlerCPU + c.siteCPU).Seconds() /
			(base.crawlerCPU + base.siteCPU).Seconds(),
	}
}

// compile has the module compiled, so that the crawls find it known.
func (l *lab) compile(ctx context.Context) error {
	root, err := l.add("first", siteSize{pages: 1, bytes: 500}, 1)
	if err == nil {
		_, err = l.measure(ctx, summaries, []string{root})
	}
	return err
}
