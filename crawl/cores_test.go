package crawl

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl/canon"
	"peerd/crawl/crawllet/page"
	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/scope"
	"peerd/store"
	"peerd/store/warc"
)

// BenchmarkCores measures how well parsing and storing use two cores: everything that
// happens to an answer, from its bytes to its place in the store and the archive,
// alternately on one core and on two. It reports pages per second on one core and the ratio
// of two cores to one. It uses generated pages, or those of -html-dir.
func BenchmarkCores(b *testing.B) {
	for _, archive := range []bool{false, true} {
		b.Run(fmt.Sprintf("warc=%v", archive), func(b *testing.B) {
			pages := benchPages(b)
			var one, two time.Duration
			for b.Loop() {
				for _, cores := range []int{1, 2} {
					took := digest(b, pages, cores, archive)
					if cores == 1 {
						one += took
					} else {
						two += took
					}
				}
			}
			b.ReportMetric(float64(len(pages)*b.N)/one.Seconds(), "pages/s-on-one")
			b.ReportMetric(one.Seconds()/two.Seconds(), "two/one")
			b.ReportMetric(0, "ns/op")
		})
	}
}

var htmlDir = flag.String("html-dir", "",
	"directory of HTML files for BenchmarkCores; without it, pages are generated")

const benchMost, benchHosts = 6400, 64

// benchPages returns a few thousand pages on several hosts, by URL.
func benchPages(b *testing.B) map[store.URL][]byte {
	pages := map[store.URL][]byte{}
	dir := *htmlDir
	if dir == "" {
		b.Log("using generated pages; set -html-dir for real ones")
		for i := range benchMost {
			var s strings.Builder
			fmt.Fprintf(&s, "<!DOCTYPE html><title>page %d</title><body>", i)
			for j := range 100 {
				fmt.Fprintf(&s,
					"<p>Paragraph %d of page %d has some words, <b>bold ones</b>, "+
						"and <a class=x href=\"/%d.html\">a link</a>.\n",
					j, i, (i+j*j)%benchMost)
				s.WriteString(strings.Repeat("And more text that says nothing at all. ", 5))
			}
			pages[store.URL(fmt.Sprintf("http://host%d.test/%d.html", i%benchHosts, i))] = []byte(
				s.String())
		}
		return pages
	}
	// Use whole directories, so that most links lead to existing pages, and put each on
	// every host: a host has one job at a time, so the hosts have to be equal.
	tops, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, top := range tops {
		files := map[string][]byte{}
		walk := func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !strings.HasSuffix(path, ".html") ||
				len(pages)/benchHosts+len(files) > benchMost/benchHosts {
				return nil
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if body, err := os.ReadFile(path); err == nil { // skip a broken symbolic link
				files[filepath.ToSlash(rel)] = body
			}
			return nil
		}
		if err := filepath.WalkDir(filepath.Join(dir, top.Name()), walk); err != nil {
			b.Fatal(err)
		}
		if len(pages)/benchHosts+len(files) > benchMost/benchHosts {
			continue
		}
		for name, body := range files {
			for h := range benchHosts {
				u, err := canon.Join(store.URL(fmt.Sprintf("http://host%d.test/", h)), name)
				if err == nil {
					pages[u] = body
				}
			}
		}
	}
	b.Logf("%d pages", len(pages))
	return pages
}

// digest passes all pages through the second half of a crawler on the given number of
// cores.
func digest(b *testing.B, pages map[store.URL][]byte, cores int, archive bool) time.Duration {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
	db, err := store.Open(b.TempDir(), store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	f, err := frontier.New(frontier.Config{DB: db}, func(netip.Prefix) bool { return true })
	if err != nil {
		b.Fatal(err)
	}
	sc, err := scope.Compile(scope.Rules{Mode: scope.ModeAny}, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := &Crawler{
		cfg: Config{
			DB: db, Frontier: f, Scope: sc, Agent: "peerd", Delegate: silent{},
			Rules: Rules{URLs: canon.DefaultRules(), Kinds: extract.Pages,
				Content: ContentRules{Exact: true}},
		},
		contents: newContentIndex(), log: slog.New(slog.DiscardHandler),
	}
	if archive {
		if c.cfg.Archive, err = warc.Open(b.TempDir(), warc.Options{MinFree: -1}); err != nil {
			b.Fatal(err)
		}
		defer c.cfg.Archive.Close()
	}
	byHost := map[string][]store.Pending{}
	for u := range pages {
		byHost[u.Host()] = append(byHost[u.Host()], store.Pending{URL: u})
	}
	for h, found := range byHost {
		addr := netip.AddrFrom4([4]byte{10, 0, byte(len(f.HostList())), 1})
		if err := f.AddHost(h, store.SubnetOf(addr), addr, time.Time{}); err != nil {
			b.Fatal(err)
		}
		if err := c.Route(found); err != nil {
			b.Fatal(err)
		}
	}
	head := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
	var next atomic.Int64
	var wg sync.WaitGroup
	begin := time.Now()
	for range benchHosts {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(pages) {
					return
				}
				job, err := f.Next(context.Background())
				for err == nil && pages[job.Entry.URL] == nil { // a page that does not exist
					err = c.drop(job, store.FetchReport{Outcome: store.OutcomeHTTPError})
					if err == nil {
						f.Return(job, true)
						job, err = f.Next(context.Background())
					}
				}
				if err != nil {
					b.Error(err)
					return
				}
				body := pages[job.Entry.URL]
				res := fetch.Result{
					Outcome: store.OutcomeOK, Status: 200, ContentType: "text/html",
					Header: http.Header{"Content-Type": {"text/html"}},
					Body:   body, Raw: body, Bytes: int64(len(body)), Started: begin,
					RequestHead: []byte("GET / HTTP/1.1\r\n\r\n"), ResponseHead: head,
				}
				got := c.read(store.FetchRequest{URL: job.Entry.URL, Depth: job.Entry.Depth}, &res,
					false)
				if _, err = c.commit(got, job, 0); err != nil || got.err != nil {
					b.Error(err, got.err)
				}
				f.Release(job, true, 0, 0)
			}
		})
	}
	wg.Wait()
	return time.Since(begin)
}

// silent is a Delegate that forgets what it is told.
type silent struct{ Delegate }

func (silent) PendingAdded(map[string]int)        {}
func (silent) RecentlySent(store.URL) bool        { return false }
func (silent) Unresponsive(string, store.Outcome) {}
func (silent) Archived(Archived)                  {}
func (silent) Plugins(page.Page) []PluginResult   { return nil }
