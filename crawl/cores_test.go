package crawl

import (
	"context"
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
	"peerd/crawl/extract"
	"peerd/crawl/fetch"
	"peerd/crawl/frontier"
	"peerd/crawl/scope"
	"peerd/store"
	"peerd/store/warc"
)

// BenchmarkCores measures how parsing and storing use the cores: everything that
// is done with an answer, from its bytes to its place in the store and the
// archive, on one core and on two, in turns. It prints pages per second on one
// core and the ratio of two to one. PEERD_HTML_DIR names a folder of real
// pages; without it they are made.
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

const benchMost, benchHosts = 6400, 64

// benchPages returns some thousand pages by their URLs, on some hosts.
func benchPages(b *testing.B) map[store.URL][]byte {
	pages := map[store.URL][]byte{}
	dir := os.Getenv("PEERD_HTML_DIR")
	if dir == "" {
		b.Log("PEERD_HTML_DIR names no folder of real pages: they are made")
		for i := range benchMost {
			var s strings.Builder
			fmt.Fprintf(&s, "<!DOCTYPE html><title>page %d</title><body>", i)
			for j := range 100 {
				fmt.Fprintf(&s, "<p>Paragraph %d of page %d has some words, <b>bold ones</b>, and <a class=x href=\"/%d.html\">a link</a>.\n", j, i, (i+j*j)%benchMost)
				s.WriteString(strings.Repeat("And more text that says nothing at all. ", 5))
			}
			pages[store.URL(fmt.Sprintf("http://host%d.test/%d.html", i%benchHosts, i))] = []byte(s.String())
		}
		return pages
	}
	// Whole folders, so that most links lead to pages that are there, each on
	// every host: a host has one job at a time, so they have to be equal.
	tops, err := os.ReadDir(dir)
	if err != nil {
		b.Fatal(err)
	}
	for _, top := range tops {
		files := map[string][]byte{}
		err := filepath.WalkDir(filepath.Join(dir, top.Name()), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".html") || (len(pages)/benchHosts+len(files)) > benchMost/benchHosts {
				return nil
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			if body, err := os.ReadFile(path); err == nil { // else a link to nowhere
				files[filepath.ToSlash(rel)] = body
			}
			return nil
		})
		if err != nil {
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

// digest runs all pages through a crawler's second half on so many cores.
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
			DB: db, Frontier: f, Scope: sc, Agent: "peerd", Sent: func(store.URL) bool { return false },
			Deferred: func(map[string]int) {},
			Rules:    Rules{URLs: canon.DefaultRules(), Kinds: extract.Pages, Content: ContentRules{Exact: true}},
		},
		contents: newContents(), health: newHealth(), log: slog.New(slog.DiscardHandler),
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
		if err := f.AddHost(h, store.SubnetOf(addr), addr); err != nil {
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
				for err == nil && pages[job.Entry.URL] == nil { // a page that is not there
					if err = c.drop(job, store.OutcomeHTTPError); err == nil {
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
					Outcome: store.OutcomeOK, Status: 200, ContentType: "text/html", Header: http.Header{"Content-Type": {"text/html"}},
					Body: body, Raw: body, Bytes: int64(len(body)), Started: begin,
					RequestHead: []byte("GET / HTTP/1.1\r\n\r\n"), ResponseHead: head,
				}
				got := c.read(store.FetchRequest{URL: job.Entry.URL, Depth: job.Entry.Depth}, &res, false)
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
