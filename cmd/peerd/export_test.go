package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"peerd/node"
	"peerd/node/config"
)

func TestExportFilter(t *testing.T) {
	noon := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		since, host, page string
		want              bool
	}{
		{"", "", "http://a.example/", true},
		{"2026-01-31", "", "http://a.example/", true},
		{"2026-02-01", "", "http://a.example/", false},
		{"2026-01-31T12:00:00Z", "", "http://a.example/", true},
		{"2026-01-31T12:00:01Z", "", "http://a.example/", false},
		{"2026-01-31T12:30:00+01:00", "", "http://a.example/", true},
		{"", "a.example", "https://a.example:8443/x", true},
		{"", "a.example", "http://b.a.example/", false},
		{"2026-02-01", "a.example", "http://a.example/", false},
	} {
		since, err := parseSince(c.since)
		if err != nil {
			t.Errorf("parseSince(%q) = %v, want no error", c.since, err)
		}
		f := exportFilter{host: c.host, since: since}
		if got := f.has(c.page, noon); got != c.want {
			t.Errorf("%+v has %s of noon: %v, want %v", f, c.page, got, c.want)
		}
	}
	if _, err := parseSince("yesterday"); err == nil {
		t.Error("parseSince(yesterday) = nil, want an error")
	}
}

// An interrupted export continues, with the rows after those that are known to be in the file. It
// tells of damaged records that were found before.
func TestResume(t *testing.T) {
	markEvery = 20
	t.Cleanup(func() { markEvery = 16 << 20 })
	name := filepath.Join(t.TempDir(), "out")
	stop := errors.New("stop")
	home, other := filepath.Join(t.TempDir(), "home"), filepath.Join(t.TempDir(), "home")
	for _, dir := range []string{home, other} {
		if _, err := config.Init(dir); err != nil {
			t.Fatal(err)
		}
	}
	job := func(home, kind string) *exportJob {
		return &exportJob{home: config.Home{Dir: home},
			at: exportPosition{Export: kind, Archive: map[string]int64{}}}
	}
	// rows writes rows of ten bytes from j.at.After on, and fails before the row last.
	rows := func(last int) func(context.Context, *exportJob) error {
		return func(_ context.Context, j *exportJob) error {
			from, _ := strconv.Atoi(j.at.After)
			for i := from; i < 100; i++ {
				if i == last {
					return stop
				}
				if i == 10 {
					j.at.addDamage(errors.New("bad"))
				}
				fmt.Fprintf(j.w, "row %05d\n", i)
				j.at.After, j.at.Archive["f"] = strconv.Itoa(i+1), int64(i)
				if err := j.mark(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for _, last := range []int{0, 1, 33, 33, 71} {
		if err := job(home, "k").resume(t.Context(), name, rows(last)); !errors.Is(err, stop) {
			t.Fatalf("resume() = %v, want %v", err, stop)
		}
	}
	if _, err := os.Stat(name); err == nil {
		t.Fatal("the file is there before it is complete")
	}
	for _, j := range []*exportJob{job(home, "other"), job(other, "k")} {
		if err := j.resume(t.Context(), name, rows(100)); err == nil ||
			!strings.Contains(err.Error(), "another export") {
			t.Errorf("resume() of another export = %v", err)
		}
	}
	begun := -1
	err := job(home, "k").resume(t.Context(), name, func(ctx context.Context, j *exportJob) error {
		begun, _ = strconv.Atoi(j.at.After)
		return rows(100)(ctx, j)
	})
	if err == nil || err.Error() != "exported everything but 1 damaged record, the first: bad" ||
		begun < 60 || begun > 71 {
		t.Errorf("resume() = %v, beginning with row %d, want one of 60 to 71", err, begun)
	}
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "row %05d\n", i)
	}
	if got, err := os.ReadFile(name); err != nil || string(got) != want.String() {
		t.Errorf("the file is %q, %v", got, err)
	}
	if left, _ := filepath.Glob(name + ".*"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// A damaged record costs an export to a file this record, and its status.
func TestExportDamaged(t *testing.T) {
	const pages = 5
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		for i := range pages {
			fmt.Fprintf(w, "<a href=/%d>%s</a>", i, r.URL.Path)
		}
	}))
	defer site.Close()
	home, err := config.Init(filepath.Join(t.TempDir(), "home"))
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	c.Archive.Enabled, c.Crawl.MinFree = true, 0
	c.Crawl.MinDelay = config.Duration{Duration: time.Millisecond}
	c.Crawl.AllowNet = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
	if sum, err := node.Crawl(t.Context(), node.CrawlOptions{
		Home: home.Dir, Seeds: []string{site.URL + "/0"}, Scope: "host", Config: c,
		Rules: config.DefaultProfile(), UserAgent: "peerd-test",
		Emulation: &node.Emulation{TimeScale: 0.01, DialWeb: (&net.Dialer{}).DialContext},
	}); err != nil || sum.Pages != pages {
		t.Fatalf("Crawl() = %+v, %v, want %d pages", sum, err, pages)
	}
	r, err := node.Archive(home)
	if err != nil {
		t.Fatal(err)
	}
	var index strings.Builder
	if err := r.Index(t.Context(), &index); err != nil {
		t.Fatal(err)
	}
	var file string
	var offset, length int
	for line := range strings.Lines(index.String()) {
		var x struct {
			URL, Filename  string
			Offset, Length int `json:",string"`
		}
		err := json.Unmarshal([]byte(line[strings.Index(line, "{"):]), &x)
		if err != nil {
			t.Fatal(err)
		}
		if x.URL == site.URL+"/2" {
			file, offset, length = x.Filename, x.Offset, x.Length
		}
	}
	path := filepath.Join(home.ArchiveDir(), file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[offset+length-8] ^= 1 // of the checksum
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	for _, kind := range []string{"text", "text --resume", "warc --resume", "wacz",
		"warc --host 127.0.0.1"} {
		cmd := newRootCommand()
		cmd.SetArgs(append([]string{"export", "--home", home.Dir, "-o", out},
			strings.Fields(kind)...))
		err := cmd.ExecuteContext(t.Context())
		want := fmt.Sprintf("exported everything but 1 damaged record, the first: warc: damaged "+
			"record: %s, record at %d: gzip: invalid checksum", file, offset)
		if err == nil || err.Error() != want {
			t.Errorf("export %s = %v, want %s", kind, err, want)
		}
		got, err := os.ReadFile(out)
		if err != nil {
			t.Errorf("export %s: %v", kind, err)
		}
		if lines := strings.Count(string(got), "\n"); strings.HasPrefix(kind, "text") &&
			lines != pages-1 {
			t.Errorf("export %s has %d lines, want %d", kind, lines, pages-1)
		}
		os.Remove(out)
	}
}
