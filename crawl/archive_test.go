package crawl_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"peerd/crawl"
	"peerd/store"
	"peerd/store/warc"
)

// newArchive opens an archive; a quota of 0 means no quota.
func newArchive(t *testing.T, quota int64) *warc.Archive {
	t.Helper()
	a, err := warc.Open(t.TempDir(), warc.Options{MinFree: -1, Quota: quota})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

// record is one record of an archive.
type record struct {
	kind, url string
	date      time.Time
	refers    string
	block     string
}

func records(t *testing.T, a *warc.Archive) (all []record) {
	t.Helper()
	err := a.Follow(t.Context(), map[string]int64{}, func(r warc.Record) error {
		b, err := io.ReadAll(r.Block)
		all = append(all, record{r.Type, r.URL, r.Time, r.Get("WARC-Refers-To-Date"), string(b)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Each answer is in the archive once, unless it was truncated or forbids archiving.
func TestArchive(t *testing.T) {
	t.Parallel()
	a := newArchive(t, 0)
	r := newRig(t, "", 0, func(c *crawl.Config) {
		c.Archive, c.Revisit, c.MaxText = a, &eager, 100
	})
	s := newSite(t, 64, 1)
	r.own("a.test", s)
	serve := func(path, tag, kind, body string) {
		s.mux.HandleFunc(path, func(w http.ResponseWriter, q *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("ETag", `"`+path+`"`)
			if tag != "" {
				w.Header().Set("X-Robots-Tag", tag)
			}
			if q.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			fmt.Fprint(w, body)
		})
	}
	serve("/{$}", "", "text/html",
		`<a href="/secret">x</a><a href="/film">x</a><a href="/shy">x</a><a href="/absent">x</a>`+
			`<a href="/moved">x</a><a href="/cut">x</a>`)
	serve("/secret", "", "text/html", `<meta name="robots" content="noarchive">nothing to keep`)
	serve("/film", "", "video/mp4", "a film")
	serve("/shy", "noarchive", "video/mp4", "a shy film")
	s.mux.Handle("/moved", http.RedirectHandler("/film", http.StatusFound))
	s.mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "1000")
		fmt.Fprint(w, "half")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	s.text("/robots.txt", "User-agent: *")
	r.seed(s.url("a.test", "/"))
	stop := r.start()
	r.until("pages are revisited", func() bool { return r.db.Counters().NotModified >= 6 })
	stop()
	n := map[string]int{}
	var first time.Time
	for _, rec := range records(t, a) {
		n[rec.kind+" "+strings.TrimPrefix(rec.url, string(s.url("a.test", "")))]++
		switch {
		case rec.kind == "response" && strings.HasSuffix(rec.url, "/"):
			if first = rec.date; !strings.HasPrefix(rec.block, "HTTP/1.1 200 OK\r\n") ||
				!strings.HasSuffix(rec.block, "</a>") {
				t.Errorf("page record has block %q", rec.block)
			}
		case rec.kind == "revisit" &&
			rec.refers != first.UTC().Format("2006-01-02T15:04:05.000000Z"):
			at, err := time.Parse(time.RFC3339Nano, rec.refers)
			if err != nil || at.Sub(first).Abs() > time.Millisecond {
				t.Errorf("revisit record refers to %s, want %v", rec.refers, first)
			}
		}
	}
	for _, want := range []string{"/", "/film", "/absent", "/moved", "/robots.txt"} {
		if n["response "+want] != 1 || n["request "+want] < 1 || n["metadata "+want] < 1 {
			t.Errorf("%s is in the archive %d times, want 1", want, n["response "+want])
		}
	}
	for _, not := range []string{"/secret", "/shy", "/cut"} {
		if n["response "+not]+n["revisit "+not] != 0 {
			t.Errorf("%s is in the archive, want it left out", not)
		}
	}
	if n["revisit /"] < 2 {
		t.Errorf("got records %v", n)
	}
	p, _ := r.page(s.url("a.test", "/"))
	at := warc.Location{File: p.Archive.File, Offset: p.Archive.Offset, Length: p.Archive.Length}
	if c, err := a.ReadAt(at); err != nil || c.Type != "response" || c.URL != string(p.URL) {
		t.Errorf("record at the page's location: %+v, %v", c, err)
	}
	r.handed.check(t, a, s.url("a.test", "/"))
}

// handedOver are answers that Archived was called with.
type handedOver struct {
	mu  sync.Mutex
	all []crawl.Archived
}

func (h *handedOver) add(a crawl.Archived) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, a)
}

// check checks that the answers are all that is archived, and that a page has its text.
func (h *handedOver) check(t *testing.T, a *warc.Archive, page store.URL) {
	t.Helper()
	ends := map[int64]int64{}
	for _, x := range h.all {
		ends[x.At.Offset] = x.At.End
		if x.URL == page && x.Status == http.StatusOK &&
			(x.Page == nil || x.Page.Text != "xxxxxx" || len(x.Page.Links) != 6) {
			t.Errorf("the page was handed over with %+v", x.Page)
		}
		if x.URL != page && x.Page != nil && x.Status != http.StatusNotFound {
			t.Errorf("%s was handed over as a page", x.URL)
		}
	}
	known := func(_ string, offset int64) (int64, error) { return ends[offset], nil }
	if err := a.FollowBut(t.Context(), map[string]int64{}, known, func(r warc.Record) error {
		if r.Type != "warcinfo" {
			t.Errorf("the %s of %s was not handed over", r.Type, r.URL)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// If the archive fills up during a crawl, the crawl ends and loses nothing. With a larger
// archive it continues, and a page with an answer that did not fit does not count
// as a copy of itself.
func TestArchiveFull(t *testing.T) {
	const n = 12
	small := newArchive(t, 40<<10)
	var replaced atomic.Bool
	r := newRig(t, t.TempDir(), 0, func(c *crawl.Config) {
		c.Archive, c.StopWhenFull, c.Workers = small, true, 1
		c.Delegate = spaceless{c.Delegate, func() error {
			if small.Stats().Refused > 0 && !replaced.Load() {
				return errors.New("the archive is full")
			}
			return nil
		}}
		c.Rules.Content = crawl.ContentRules{Exact: true, MaxCopies: 1}
	})
	s := newSite(t, 65, 1)
	r.own("a.test", s)
	noise := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		body := make([]byte, 16<<10) // incompressible
		for k := range body {
			body[k] = byte('0' + noise.IntN(64))
		}
		s.mux.HandleFunc(fmt.Sprintf("/%d", i), func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<a href="/%d">x</a><p title="%d">`, i+1, i)
			w.Write([]byte(strings.NewReplacer("<", "", "&", "").Replace(string(body))))
		})
	}
	r.seed(s.url("a.test", "/0"))
	if err := r.c.Run(t.Context()); !errors.Is(err, crawl.ErrNoSpace) ||
		!errors.Is(err, warc.ErrNoSpace) {
		t.Fatalf("Run() = %v, want ErrNoSpace", err)
	}
	if got := r.db.Counters().Pages; got < 1 || got >= n {
		t.Fatalf("%d pages fit into the archive", got)
	}
	large := newArchive(t, 0)
	r.c.SetArchive(large)
	replaced.Store(true)
	r.fatal(r.restart())
	r.crawl()
	requests := s.count()
	for i := range n {
		p, ok := r.page(s.url("a.test", fmt.Sprintf("/%d", i)))
		if !ok || p.Outcome != store.OutcomeOK || p.Flags != 0 {
			t.Errorf("page %d: %+v", i, p)
		}
		if k := requests[fmt.Sprintf("/%d", i)]; k < 1 || k > 2 {
			t.Errorf("page %d got %d requests", i, k)
		}
	}
	kept := map[string]int{}
	for _, a := range []*warc.Archive{small, large} {
		for _, rec := range records(t, a) {
			if rec.kind == "response" {
				kept[rec.url]++
			}
		}
	}
	for u, k := range kept {
		if k != 1 && !strings.HasSuffix(u, "robots.txt") {
			t.Errorf("%s is archived %d times, want 1", u, k)
		}
	}
}

// An answer that is larger than what is left of the archive is requested once. It is cut to what
// fits, if anything does.
func TestArchiveTooSmall(t *testing.T) {
	t.Parallel()
	film := make([]byte, 64<<10) // what the fetcher keeps
	noise := rand.NewChaCha8([32]byte{1})
	noise.Read(film)
	for i, quota := range []int64{64 << 10, 1} {
		a := newArchive(t, quota)
		r := newRig(t, "", 0, func(c *crawl.Config) { c.Archive = a })
		r.c.SetSpaceWait(time.Millisecond)
		s := newSite(t, 68, byte(i+1))
		r.own("a.test", s)
		s.html("/", "/film")
		s.mux.HandleFunc("/film", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "video/mp4")
			w.Write(film)
		})
		r.seed(s.url("a.test", "/"))
		stop := r.start()
		r.until("everything is fetched", r.idle)
		stop()
		if n := s.count(); n["/"] != 1 || n["/film"] != 1 {
			t.Errorf("quota %d: requests %v", quota, n)
		}
		p, ok := r.page(s.url("a.test", "/film"))
		if !ok || p.Outcome != store.OutcomeNotHTML {
			t.Errorf("quota %d: page %+v", quota, p)
		}
		if quota == 1 {
			if p.Archive.File != "" || a.Stats().Exchanges > 0 {
				t.Errorf("page %+v, archive %+v, want nothing archived", p, a.Stats())
			}
			continue
		}
		x, err := a.ReadAt(warc.Location{File: p.Archive.File, Offset: p.Archive.Offset,
			Length: p.Archive.Length})
		if n := len(x.Body); err != nil || x.Truncated != "length" || n < 32<<10 ||
			!bytes.HasPrefix(film, x.Body) || n == len(film) || a.Stats().Bytes > quota {
			t.Errorf("read %d bytes, truncated %q, %v; archive %+v", n, x.Truncated, err, a.Stats())
		}
	}
}

// restart loads the hosts again, as a restart does, but keeps the Crawler.
func (r *rig) restart() error {
	var hosts []store.Host
	err := r.db.View(func(tx *store.Tx) error {
		return tx.Hosts(func(h store.Host) error { hosts = append(hosts, h); return nil })
	})
	for _, h := range hosts {
		r.fr.Adopt(h.Subnet, []store.Host{h}, time.Time{})
	}
	return err
}

// spaceless is a Delegate of a disk that may be full.
type spaceless struct {
	crawl.Delegate
	check func() error
}

func (s spaceless) CheckSpace() error { return s.check() }

// Without free space a crawl with StopWhenFull ends, and another waits. Neither fetches
// anything in the meantime.
func TestNoSpace(t *testing.T) {
	var full atomic.Bool
	why := errors.New("the disk is full")
	for _, alone := range []bool{true, false} {
		r := newRig(t, "", 0, func(c *crawl.Config) {
			c.StopWhenFull = alone
			c.Delegate = spaceless{c.Delegate, func() error {
				if full.Load() {
					return why
				}
				return nil
			}}
		})
		r.c.SetSpaceWait(time.Millisecond)
		s := newSite(t, 66, 1)
		r.own("a.test", s)
		s.html("/")
		r.seed(s.url("a.test", "/"))
		full.Store(true)
		if _, err := r.c.RemoteFetch(t.Context(), store.FetchRequest{URL: s.url("b.test", "/"),
			Addr: s.addr.Addr()}, nil); !errors.Is(err, crawl.ErrBusy) {
			t.Errorf("RemoteFetch() without space: %v, want ErrBusy", err)
		}
		long := testTimeout
		if !alone { // waits until it is stopped
			long = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), long)
		defer cancel()
		err := r.c.Run(ctx)
		if alone != errors.Is(err, crawl.ErrNoSpace) || alone != errors.Is(err, why) || !alone &&
			err != nil {
			t.Errorf("StopWhenFull %v: Run() = %v", alone, err)
		}
		if len(s.log()) != 0 || r.fr.Stats().Pending != 1 {
			t.Errorf("requests %v, frontier %+v", s.count(), r.fr.Stats())
		}
		stop := r.start
		if !alone {
			end := stop()
			full.Store(false)
			r.until("everything is fetched", r.idle)
			end()
			if s.count()["/"] != 1 {
				t.Errorf("requests %v", s.count())
			}
		}
	}
}
