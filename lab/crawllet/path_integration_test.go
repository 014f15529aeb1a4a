//go:build integration

package crawllet

import (
	"crypto/ed25519"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzhttp"
	"golang.org/x/sys/unix"

	"peerd/crawl/crawllet"
	"peerd/crawl/crawllet/record"
	"peerd/crawl/extract"
	"peerd/store"
)

var (
	siteDir = flag.String("site", "", "directory of the site; pages are generated without it")
	pages   = flag.Int("pages", 200, "number of generated pages")
	rtt     = flag.Duration("rtt", 80*time.Millisecond, "round-trip time of the path")
	bps     = flag.Float64("bps", 1e6, "bandwidth of the path, bytes per second")
	other   = flag.String("other", "", "another module of which TestStart measures the time")
	quiet   = flag.Bool("quiet", false, "judge times too; for a machine that does nothing else")
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

// newPath returns a path to the server that handler makes of the path's URL.
func newPath(t *testing.T, handler func(url string) http.Handler) *Path {
	t.Helper()
	p, err := NewPath("127.0.0.1", *rtt, *bps)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("path: %+v", p.Link)
	far, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler(p.URL), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(far)
	}()
	p.Connect(far.Addr().String())
	t.Cleanup(func() {
		server.Close()
		<-done
		p.Close()
	})
	return p
}

// back returns the bytes received over a path.
func back(p *Path) int64 {
	_, n := p.Bytes()
	return n
}

// site returns the directory of the site, of which every page can be reached from the index.
func site(t *testing.T) string {
	t.Helper()
	if *siteDir != "" {
		return *siteDir
	}
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 1))
	for i := range *pages {
		var b strings.Builder
		fmt.Fprintf(&b, "<!DOCTYPE html><html><head><title>Page %d</title></head><body>", i)
		for k := range 20 {
			fmt.Fprintf(&b, `<a href="p%d.html">page %d</a>`, (i*7+k)%*pages, k)
		}
		for range 2000 {
			fmt.Fprintf(&b, "word%d ", int(1000*r.Float64()*r.Float64()))
		}
		name := filepath.Join(dir, fmt.Sprintf("p%d.html", i))
		if i == 0 {
			name = filepath.Join(dir, "index.html")
		}
		if err := os.WriteFile(name, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// build builds the reference crawllet.
func build(t *testing.T, file string, env ...string) {
	t.Helper()
	if err := Build(t.Context(), file, env...); err != nil {
		t.Fatal(err)
	}
}

// sum adds up records.
type sum struct {
	pages int
	bytes int64
}

func (s *sum) add(r record.Record) {
	if r.Status == 200 {
		s.pages++
		s.bytes += r.Size
	}
}

// serve returns a handler for the files and the crawllets of a site.
func serve(t *testing.T, root, url, cache string) http.Handler {
	t.Helper()
	h, err := Handler(root, url, cache)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestPath crawls the site in four ways and logs the figures.
func TestPath(t *testing.T) {
	root, work := site(t), t.TempDir()
	module := filepath.Join(work, "crawllet.wasm")
	build(t, module, WASI...)
	plain := newPath(t, func(u string) http.Handler {
		return serve(t, root, u, filepath.Join(work, "cache"))
	})
	zipped := newPath(t, func(string) http.Handler {
		return gzhttp.GzipHandler(http.FileServer(http.Dir(root)))
	})
	fetch := func(name string, summaries bool) (time.Duration, int64, *sum) {
		before, to := back(plain), &sum{}
		res, err := AtSource(t.Context(), plain.URL, module, summaries, to.add)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		received := back(plain) - before
		t.Logf("%-10s %7.1f s, %9d bytes received, %d pages of %d bytes, first after %v, %+v",
			name, res.Time.Seconds(), received, to.pages, to.bytes,
			res.First.Round(time.Millisecond), res.Usage)
		return res.Time, received, to
	}
	fetch("cold", true)
	raw, rawBytes, all := fetch("raw", false)
	short, shortBytes, _ := fetch("summaries", true)
	ordinary, ordinaryBytes := crawl(t, "ordinary", plain)
	crawl(t, "gzip", zipped)
	percent := 100 / float64(ordinaryBytes)
	t.Logf("time: raw %.1f times faster, summaries %.1f; bytes: raw %.1f %%, summaries %.1f %%",
		ordinary.Seconds()/raw.Seconds(), ordinary.Seconds()/short.Seconds(),
		percent*float64(rawBytes), percent*float64(shortBytes))
	if all.pages < 10 || shortBytes*2 > ordinaryBytes {
		t.Error("summaries are not clearly shorter than pages")
	}
	if *quiet && raw*2 > ordinary {
		t.Error("a crawllet is not clearly faster than an ordinary crawl")
	}
}

// crawl crawls the site page by page, without pauses.
func crawl(t *testing.T, name string, p *Path) (time.Duration, int64) {
	t.Helper()
	before, start := back(p), time.Now()
	res, err := Ordinary(t.Context(), p.URL)
	took, received := time.Since(start), back(p)-before
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	t.Logf("%-10s %7.1f s, %9d bytes received, %d pages of %d bytes", name, took.Seconds(),
		received, res.Pages, res.Bytes)
	return took, received
}

// TestStart logs how soon the first record of a known module arrives, without a path, and the
// processor time of a crawl in the crawllet and natively.
func TestStart(t *testing.T) {
	root, work := site(t), t.TempDir()
	module, native := filepath.Join(work, "crawllet.wasm"), filepath.Join(work, "native")
	build(t, module, WASI...)
	build(t, native)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String() + "/"
	server := &http.Server{Handler: serve(t, root, url, filepath.Join(work, "cache")),
		ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
	defer func() {
		server.Close()
		<-done
	}()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &crawllet.Client{HTTP: crawllet.NewHTTPClient(nil), Key: key, Agent: "test"}
	policy, err := c.Discover(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{module}
	if *other != "" {
		modules = append(modules, *other)
	}
	var codes [][]byte
	var start []time.Duration // processor time until the first page
	for _, m := range modules {
		code, err := os.ReadFile(m)
		if err != nil {
			t.Fatal(err)
		}
		codes, start = append(codes, code), append(start, measureStart(t, c, policy, code))
	}
	for _, summaries := range []bool{false, true} {
		args := crawllet.Args{Prefix: url, Summaries: summaries}
		alone := runNative(t, native, root, args)
		usual := runUsual(t, root, url, summaries)
		t.Logf("summaries %v: native %v, usual code %v", summaries, alone, usual)
		for i, code := range codes {
			_, used := runOnce(t, c, policy, code, args)
			t.Logf("%s: processor time %v, of the start %v; %.1f times native, %.1f times usual",
				modules[i], used, start[i], used.Seconds()/alone.Seconds(),
				used.Seconds()/usual.Seconds())
		}
	}
}

// measureStart logs when the first record of a module arrives, and returns the processor time.
func measureStart(
	t *testing.T, c *crawllet.Client, p crawllet.Policy, code []byte,
) time.Duration {
	t.Helper()
	var first, cpu []time.Duration
	for i := range 21 {
		took, used := runOnce(t, c, p, code, crawllet.Args{Prefix: p.Prefix, Pages: 1})
		if i > 0 { // the first one uploads and compiles
			first, cpu = append(first, took), append(cpu, used)
		}
	}
	slices.Sort(first)
	slices.Sort(cpu)
	t.Logf("first record after %v (median of %d; %v to %v), processor time %v", first[10],
		len(first), first[0], first[19], cpu[10])
	return cpu[10]
}

// runOnce returns when the first record arrived after the offer, and the processor time.
func runOnce(
	t *testing.T, c *crawllet.Client, p crawllet.Policy, module []byte, args crawllet.Args,
) (first, cpu time.Duration) {
	t.Helper()
	start := time.Now()
	run, err := c.Run(t.Context(), p,
		crawllet.Job{Module: module, Args: args.List(), Seeds: []string{p.Prefix}})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	for {
		_, err := run.Next()
		if errors.Is(err, io.EOF) {
			return first, time.Duration(run.End().Usage.CPU) * time.Millisecond
		}
		if err != nil {
			t.Fatal(err)
		}
		if first == 0 {
			first = time.Since(start)
		}
	}
}

// runNative returns the processor time of the crawllet's native build on one processor.
func runNative(t *testing.T, program, root string, args crawllet.Args) time.Duration {
	t.Helper()
	if _, err := os.Stat(root); errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	cmd := exec.Command(program, append([]string{"-root", root}, args.List()...)...)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	cmd.Stdin, cmd.Stdout = strings.NewReader(args.Prefix+"\n\n"), io.Discard
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// runUsual returns the processor time of the same work by the code with which a peer reads pages.
func runUsual(t *testing.T, root, prefix string, summaries bool) time.Duration {
	t.Helper()
	html := http.Header{"Content-Type": {"text/html"}}
	options := extract.Options{}
	if summaries {
		options.Text = 320
	}
	before := cpuTime(t)
	queue, seen := []string{prefix}, map[string]bool{prefix: true}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		name := strings.TrimPrefix(u, prefix)
		if name == "" || strings.HasSuffix(name, "/") {
			name += "index.html"
		}
		body, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || filepath.Ext(name) != ".html" {
			continue
		}
		doc, err := extract.Page(body, html, store.URL(u), options)
		if err != nil {
			t.Fatal(err)
		}
		r := record.Record{URL: u, Status: 200, Title: doc.Title, Text: doc.Text, Body: body}
		known := map[string]bool{}
		for _, l := range doc.Links {
			link := string(l.URL)
			if summaries && !known[link] {
				known[link], r.Links = true, append(r.Links, link)
			}
			if strings.HasPrefix(link, prefix) && !strings.Contains(link, "?") && !seen[link] {
				seen[link], queue = true, append(queue, link)
			}
		}
		if summaries {
			r.Body, r.Digest = nil, record.Digest(body)
		}
		if err := record.Write(io.Discard, &r); err != nil {
			t.Fatal(err)
		}
	}
	return cpuTime(t) - before
}

// cpuTime returns the processor time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
