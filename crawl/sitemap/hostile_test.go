package sitemap

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
)

// bomb compresses a text that is repeated many times.
func bomb(head, text, tail string, times int) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
	io.WriteString(w, head)
	for range times {
		io.WriteString(w, text)
	}
	io.WriteString(w, tail)
	w.Close()
	return out.Bytes()
}

func laughs(levels int) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0"?><!DOCTYPE urlset [<!ENTITY l0 "ha">`)
	for i := range levels {
		fmt.Fprintf(&b, `<!ENTITY l%d "%s">`, i+1, strings.Repeat(fmt.Sprintf("&l%d;", i), 10))
	}
	fmt.Fprintf(&b,
		`<!ENTITY file SYSTEM "file:///etc/passwd">]><urlset><url><loc>/a?&l%d;&file;</loc>`+
			`</url></urlset>`, levels)
	return b.String()
}

// memory returns the number of bytes that f allocates in total.
func memory(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestHostile verifies the limits on the cost of a document.
func TestHostile(t *testing.T) {
	const url = "<url><loc>/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa</loc></url>"
	layer := bomb("", strings.Repeat("\x00", 1<<10), "", 10<<10)
	for _, c := range []struct {
		name      string
		body      []byte
		pages     int
		truncated bool
		most      uint64 // allocated, in MiB
	}{
		{"billion laughs", []byte(laughs(9)), 1, false, 1},
		{"gzip bomb of entries", bomb("<urlset>", strings.Repeat(url, 1000), "", 100), -1, true, 60},
		{"gzip bomb of text", bomb("<urlset><url><loc>/a</loc></url><url><loc>", strings.Repeat("a", 1<<20), "", 8), 1, true, 10},
		{"gzip bomb in gzip", bomb("", string(layer), "", 1), -1, false, 10},
		{"deep nesting", []byte("<urlset><url><loc>/a</loc></url>" + strings.Repeat("<a>", 1e5)), 1, true, 1},
		{"deep in an entry", []byte("<urlset><url><loc>/a</loc>" + strings.Repeat("<a>", 1e6)), 1, true, 1},
		{"nested entries", []byte("<urlset>" + strings.Repeat("<url>", 3e4) + "<loc>/a</loc></url></urlset>"), 1, false, 100},
		{"end tags", []byte("<urlset>" + strings.Repeat("</a>", 3e4) + "<url><loc>/a</loc></url></urlset>"), 1, false, 50},
		{"namespaces", []byte("<urlset><a" + strings.Repeat(` xmlns:b="c"`, 1e4) + ">" +
			strings.Repeat("<b:a/>", 1e4) + "</a><url><loc>/a</loc></url></urlset>"), 1, false,
			100},
		{"one attribute", []byte("<urlset><url><loc>/a</loc></url><a b='" + strings.Repeat("c", 3<<20)), 1, true, 7},
		{"one comment", []byte("<urlset><url><loc>/a</loc></url><!--" + strings.Repeat("c", 3<<20)), 1, true, 7},
		{"one doctype", []byte("<!DOCTYPE " + strings.Repeat("<", 3<<20)), -1, false, 7},
		{"one line", []byte("http://example.org/\n" + strings.Repeat("c", 3<<20)), 1, false, 1},
		{"beyond the limit", []byte("<urlset><url><loc>/a</loc></url>" +
			strings.Repeat(strings.Repeat(" ", 1<<10)+"<a/>", 4<<10) +
			"<url><loc>/b</loc></url></urlset>"), 1, true, 300},
	} {
		var d Doc
		var err error
		began := time.Now()
		used := memory(func() { d, err = Parse(c.body, "", at, Options{MaxBytes: 4 << 20}) })
		t.Logf("%-22s %9d bytes, %7d KiB allocated, %v", c.name, len(c.body), used>>10,
			time.Since(began).Round(time.Millisecond))
		if err == nil && c.pages >= 0 && len(d.Pages) != c.pages || err == nil &&
			d.Truncated != c.truncated || err != nil && c.pages >= 0 {
			t.Errorf("%s: %d pages, %d invalid, truncated %v, %v", c.name, len(d.Pages), d.Invalid,
				d.Truncated, err)
		}
		if used > c.most<<20 {
			t.Errorf("%s: %d KiB allocated", c.name, used>>10)
		}
	}
}

func TestEntitiesAreNotExpanded(t *testing.T) {
	d, err := Parse([]byte(laughs(3)), "", at, Options{})
	if err != nil || len(d.Pages) != 1 || d.Pages[0].URL != "http://example.org/a?&l3;&file;" {
		t.Errorf("%+v, %v", d, err)
	}
}

// A reference that is short in the document takes no more memory than one that is written out.
func TestLongBase(t *testing.T) {
	const n = 14_000
	d, err := Parse([]byte(`<urlset xml:base="http://a.example/`+strings.Repeat("d", 1900)+`/">`+
		strings.Repeat("<url><loc>1</loc></url>", n)+"</urlset>"), "", at, Options{})
	size := 0
	for _, e := range d.Pages {
		size += len(e.URL)
	}
	if err != nil || size > 25<<20 || size < 24<<20 || len(d.Pages)+d.Dropped != n {
		t.Errorf("%d bytes of %d URLs, %d dropped, %v", size, len(d.Pages), d.Dropped, err)
	}
}

func TestLimits(t *testing.T) {
	if o := (Options{}).withDefaults(); o.MaxEntries != 50_000 || o.MaxBytes != 50<<20 ||
		o.MaxRatio != 200 {
		t.Errorf("defaults %+v", o)
	}
	var list, set strings.Builder
	for i := range 20 {
		fmt.Fprintf(&list, "http://example.org/%d\n", i)
		fmt.Fprintf(&set, "<url><loc>/%d</loc></url>", i)
	}
	body := list.String()
	// cut in the last line
	d, _ := Parse([]byte(body), "", at, Options{MaxBytes: int64(len(body)) - 2})
	if len(d.Pages) != 19 || !d.Truncated {
		t.Errorf("cut list: %d pages, truncated %v", len(d.Pages), d.Truncated)
	}
	for _, body := range []string{list.String(), "<urlset>" + set.String() + "</urlset>"} {
		d, err := Parse([]byte(body), "", at, Options{MaxEntries: 5})
		if err != nil || len(d.Pages) != 5 || d.Dropped != 15 || d.Truncated {
			t.Errorf("%d pages, %d dropped, truncated %v, %v", len(d.Pages), d.Dropped, d.Truncated,
				err)
		}
		d, _ = Parse([]byte(body), "", at, Options{MaxBytes: int64(len(body))})
		if len(d.Pages) != 20 || d.Truncated {
			t.Errorf("just long enough: %d pages, truncated %v", len(d.Pages), d.Truncated)
		}
		d, _ = Parse([]byte(body), "", at, Options{MaxBytes: int64(len(body)) / 2})
		if len(d.Pages) == 0 || len(d.Pages) > 10 || !d.Truncated {
			t.Errorf("half: %d pages, truncated %v", len(d.Pages), d.Truncated)
		}
	}
}

func TestRatio(t *testing.T) {
	body := bomb("<urlset>", "<url><loc>/a</loc></url>"+strings.Repeat(" ", 1<<10), "</urlset>",
		3<<10)
	for _, c := range []struct {
		ratio     int64
		truncated bool
	}{{0, true}, {10, true}, {1100, false}} {
		d, err := Parse(body, "", at, Options{MaxRatio: c.ratio})
		if err != nil || d.Truncated != c.truncated || len(d.Pages) < 900 {
			t.Errorf("ratio %d: %d pages, truncated %v, %v", c.ratio, len(d.Pages), d.Truncated,
				err)
		}
	}
}
