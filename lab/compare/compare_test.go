package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// TestMain runs the test binary as the driver of the bare loop if it is started as that.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		if err := RunBare(context.Background(), os.Args[2:], os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// pages is a small site that links to its pages in different ways.
var pages = map[string]string{
	"/": `<a href="a.html">a</a> <a HREF=' b.html#part '>b</a>` +
		`<map><area href="/dir/"></map> <a href="pic.PNG">no</a>`,
	"/a.html": `<a href="b.html?x=1&amp;y=2">query</a>` +
		`<a href="http://elsewhere.test/">no</a> <link rel=next href="c.html">`,
	"/b.html": `<frameset><frame src="f.html"></frameset>` +
		`<a href="mailto:a@b.test">no</a> <a href="#top">no</a> <a href="">no</a>`,
	"/c.html": `<a href="missing.html">404</a> <a href="/moved">moved</a>` +
		`<!-- <a href="comment.html">no</a> -->`,
	"/f.html":          `<base href="/dir/deep/"><a href="x.html">with base</a>`,
	"/dir/":            `<a href="../a.html">back</a><iframe src="in.html"></iframe>`,
	"/target":          `<p>end</p>`,
	"/dir/in.html":     `<script>var s = '<a href="script.html">no</a>'</script>`,
	"/dir/deep/x.html": `x`, "/b.html?x=1&y=2": `q`,
}

// site serves pages and returns a function that counts the requests by path.
func site(t *testing.T) (*httptest.Server, func() map[string]int) {
	var mu sync.Mutex
	asked := map[string]int{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.RequestURI]++
		mu.Unlock()
		if r.URL.Path == "/moved" {
			http.Redirect(w, r, "/target", http.StatusFound)
			return
		}
		body, ok := pages[r.RequestURI]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!DOCTYPE html>"+body)
	}))
	t.Cleanup(srv.Close)
	return srv, func() map[string]int {
		mu.Lock()
		defer mu.Unlock()
		return maps.Clone(asked)
	}
}

// A driver fetches every page once, and no other URL.
func TestDriversFetchTheSamePages(t *testing.T) {
	for name, crawl := range drivers(t) {
		for _, n := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s/%d", name, n), func(t *testing.T) {
				srv, asked := site(t)
				got, err := crawl(t.Context(), newDriverOptions(name, []string{srv.URL + "/"}, n))
				if err != nil {
					t.Fatal(err)
				}
				if got != (tally{Pages: int64(len(pages))}) {
					t.Errorf("tally = %+v, want %d pages", got, len(pages))
				}
				want := map[string]int{"/moved": 1, "/missing.html": 1}
				for p := range pages {
					want[p] = 1
				}
				if a := asked(); !maps.Equal(a, want) {
					t.Errorf("requests = %v\nwant %v", a, want)
				}
			})
		}
	}
}

func TestDriversEndWithTheContext(t *testing.T) {
	srv, _ := site(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, crawl := range drivers(t) {
		if got, err := crawl(ctx, newDriverOptions(name, []string{srv.URL + "/"}, 4)); err == nil ||
			got.Pages > 0 {
			t.Errorf("%s: %+v, %v; want an error and no page", name, got, err)
		}
	}
}

func TestParseHit(t *testing.T) {
	line := func(method, uri, status, kind string) string {
		return strings.Join([]string{"1.5", "A.test", method, uri, status, "10", kind, "7",
			"peerd/1 (+x)"}, "\t")
	}
	for _, tc := range []struct{ line, want string }{
		{line("GET", "/x", "200", "text/html"), "a.test/x"},
		{line("GET", "/%7ex%2f%c3%a9?", "200", "text/html; charset=utf-8"), "a.test/~x%2F%C3%A9"},
		{line("GET", "/100%", "200", "text/html"), "a.test/100%"},
		{line("GET", "/%1g", "200", "text/html"), "a.test/%1g"},
		{line("HEAD", "/x", "200", "text/html"), ""},
		{line("GET", "/x", "404", "text/html"), ""},
		{line("GET", "/x", "200", "text/html5"), ""},
		{line("GET", "/x", "200", "image/png"), ""},
	} {
		if h, err := parseHit(tc.line); err != nil || h.page != tc.want ||
			h.agent != "peerd/1 (+x)" {
			t.Errorf("%q: %+v, %v; want page %q", tc.line, h, err, tc.want)
		}
	}
	for _, bad := range []string{"", "a\tb", line("GET", "/x", "200", "text/html") + "\tmore"} {
		if _, err := parseHit(bad); !errors.Is(err, errLogLine) {
			t.Errorf("%q: %v, want %v", bad, err, errLogLine)
		}
	}
}

// parseHit does not panic, and a name is never longer than its URL.
func FuzzParseHit(f *testing.F) {
	f.Add("1\th\tGET\t/%7e%2f\t200\t1\ttext/html\t1\tpeerd")
	f.Add("%")
	f.Add("/%")
	f.Fuzz(func(t *testing.T, line string) {
		if _, err := parseHit(line); err != nil && !errors.Is(err, errLogLine) {
			t.Error(err)
		}
		if name := pathName(line); len(name) > len(line) {
			t.Errorf("%q became the longer %q", line, name)
		}
	})
}

func TestCensus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "log")
	var text strings.Builder
	add := func(agent, uri string) {
		fmt.Fprintf(&text, "1\th\tGET\t%s\t200\t1\ttext/html\t1\t%s\n", uri, agent)
	}
	add("peerd/1", "/before")
	offset := int64(text.Len())
	add("peerd/1", "/a")
	add("compare-bare", "/b")
	add("peerd/1", "/%61")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	c := census{number: map[string]int{}}
	v, err := c.count(accessLog{file}, offset, "compare-bare")
	if err != nil || v.pages != 1 || v.requests != 1 || v.twice != 0 {
		t.Errorf("bare: %+v, %v", v, err)
	}
	v, err = c.count(accessLog{file}, offset, "peerd")
	if err != nil || v.pages != 1 || v.requests != 2 || v.twice != 1 {
		t.Errorf("peerd: %+v, %v", v, err)
	}
	if got := c.missing(v); got != "h/b" {
		t.Errorf("missing() = %q, want h/b", got)
	}
}

func TestReport(t *testing.T) {
	b := &bench{log: &accessLog{}, census: census{names: []string{"h/a", "h/b"}}}
	run := func(kind, setting string, pages int, cpu float64) sample {
		v := visits{pages: pages, seen: make([]bool, pages)}
		for i := range v.seen {
			v.seen[i] = true
		}
		return sample{Crawler: kind, Setting: setting, Pages: pages, CPU: cpu, Wall: 2 * cpu,
			visits: v, crawler: crawler{Kind: kind, Setting: setting}}
	}
	r := b.makeReport([]sample{
		run("peerd", "1 core", 2, 1), run("peerd", "2 cores", 2, 0.5),
		run("colly", "8 parallel", 2, 4), run("colly", "32 parallel", 2, 2),
		run("bare", "8 parallel", 1, 0.25),
		run("peerd", "1 core", 2, 1), run("peerd", "2 cores", 2, 0.5),
		run("colly", "8 parallel", 2, 4), run("colly", "32 parallel", 2, 2),
		run("bare", "8 parallel", 2, 0.5),
	})
	want := map[string]float64{"peerd/colly": 2, "peerd/bare": 0.5,
		"pages per second, 2 cores/1 core": 2}
	if !maps.Equal(r.Ratios, want) {
		t.Errorf("ratios %v, want %v", r.Ratios, want)
	}
	if len(r.Rows) != 5 || r.Rows[0].Runs != 2 {
		t.Fatalf("rows %+v", r.Rows)
	}
	if bare := r.Rows[4]; bare.Coverage != 0.5 || bare.Missing != "h/b" || len(r.Notes) != 1 {
		t.Errorf("bare covers %g and lacks %q, notes %q; want 0.5, h/b and one note", bare.Coverage,
			bare.Missing, r.Notes)
	}
	var table, js bytes.Buffer
	if err := errors.Join(r.writeTable(&table), r.writeJSON(&js)); err != nil ||
		!json.Valid(js.Bytes()) || !strings.Contains(table.String(), "peerd/colly: 2.00") {
		t.Errorf("%v\n%s\n%s", err, &table, &js)
	}
}

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		xs   []float64
		want span
	}{
		{nil, span{}}, {[]float64{3}, span{3, 3, 3}}, {[]float64{3, 1}, span{2, 1, 3}},
		{[]float64{9, 1, 2}, span{2, 1, 9}},
	} {
		if got := spanOf(tc.xs); got != tc.want {
			t.Errorf("spanOf(%v) = %v, want %v", tc.xs, got, tc.want)
		}
	}
}

func TestWarcForm(t *testing.T) {
	for help, want := range map[string]int{
		"      --json     print JSON\n":                                     noFlag,
		"      --warc-size int   bytes\n":                                   noFlag,
		"      --warc     write an archive\n      --x   y\n":                flagAlone,
		"      --warc DIR   write an archive\n":                             flagValue,
		"Flags:\n      --scope string   x\n      --warc dir   y --warc  \n": flagValue,
	} {
		if got := warcForm([]byte(help)); got != want {
			t.Errorf("help %q: form %d, want %d", help, got, want)
		}
	}
}

func TestBusyOf(t *testing.T) {
	if got := busyOf(" 100 200 300 4000 5000 60 70 80 900 900"); math.Abs(got-8.1) > 1e-9 {
		t.Errorf("busyOf() = %g s, want 8.1", got)
	}
	if got := busyOf(" 100 what"); got != 0 {
		t.Errorf("busyOf() of an invalid line = %g s, want 0", got)
	}
}

// A pinned driver runs on its core only, and its sample is complete.
func TestMeasureADriver(t *testing.T) {
	srv, _ := site(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{census: census{number: map[string]int{}}, scratch: t.TempDir()}
	d := newDriverOptions("bare", []string{srv.URL + "/"}, 4)
	c := crawler{Kind: "bare", agent: d.Agent, cpus: []int{runtime.NumCPU() - 1}, parse: tallyOf,
		command: func(string) []string { return []string{self, "bare", d.text()} }}
	s, err := b.measure(t.Context(), c, 1)
	if err != nil {
		t.Fatal(err)
	}
	if s.Pages != len(pages) || s.CPU <= 0 || s.Wall <= 0 || runtime.GOOS == "linux" &&
		s.Peak == 0 {
		t.Errorf("%+v", s)
	}
}

func TestPinned(t *testing.T) {
	if !canPin {
		t.Skip("no affinity on this system")
	}
	var out bytes.Buffer
	last := runtime.NumCPU() - 1
	cmd := exec.Command("sh", "-c", "grep Cpus_allowed_list /proc/self/status")
	cmd.Stdout = &out
	if err := errors.Join(start(cmd, []int{last}), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Fields(out.String()), fmt.Sprint(last); len(got) != 2 ||
		got[1] != want {
		t.Errorf("the child may run on %v, want %s", got, want)
	}
}

// nginx serves a directory, with and without TLS, and writes the log that accesslog.go reads; after
// stop it does not serve any more.
func TestOwnNginx(t *testing.T) {
	if _, err := findNginx(); err != nil {
		t.Skip(err)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "index.html"), []byte("<a href=b.html>b</a>"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "b.html"), []byte("<p>b</p>"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			srv, err := startNginx(t.Context(), []string{root}, secure, t.TempDir(), nil)
			if err != nil {
				t.Fatal(err)
			}
			o := newDriverOptions("bare", srv.seeds, 2)
			s := sample{crawler: crawler{command: func(string) []string {
				return []string{os.Args[0], "bare", o.text()}
			}}}
			out, err := s.run(t.Context(), t.TempDir(), srv.cert.file)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := tallyOf(out); err != nil || got.Pages != 2 {
				t.Errorf("%+v, %v; want 2 pages", got, err)
			}
			srv.stop() // flushes the log
			c := census{number: map[string]int{}}
			if v, err := c.count(srv.log, 0, "compare-bare"); err != nil || v.pages != 2 {
				t.Errorf("the log has %+v, %v; want 2 pages", v, err)
			}
			if _, err := http.Get(srv.seeds[0]); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("after stop: %v, want a refused connection", err)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	good := DefaultOptions()
	good.Seeds = []string{"http://a/"}
	if err := good.Validate(); err != nil {
		t.Errorf("%+v: %v", good, err)
	}
	for name, spoil := range map[string]func(*Options){
		"no seed":         func(o *Options) { o.Seeds = nil },
		"seeds and roots": func(o *Options) { o.Roots = []string{"."} },
		"runs":            func(o *Options) { o.Runs = 0 },
		"only":            func(o *Options) { o.Only = []string{"wget"} },
		"parallel":        func(o *Options) { o.Parallel = []int{0} },
		"cores":           func(o *Options) { o.Cores = 100000 },
		"log": func(o *Options) {
			o.Seeds, o.Roots, o.AccessLog = nil, []string{"."}, "x"
		},
		"tls": func(o *Options) { o.TLS = true },
		"URL": func(o *Options) { o.Seeds = []string{"http://a b/%"} },
	} {
		o := good
		if spoil(&o); o.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
