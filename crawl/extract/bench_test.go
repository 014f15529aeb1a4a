package extract

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// generated returns pages in several styles.
func generated() map[string][]byte {
	var docs, list, app strings.Builder
	docs.WriteString(
		"<!doctype html><html><head><meta charset=utf-8><title>t</title>" +
			"<link rel=stylesheet href=s.css></head><body><nav>")
	for i := range 60 {
		fmt.Fprintf(&docs,
			"<li class=item><a class='nav link' href='../part%d/page-%d.html'>Page %d</a></li>\n",
			i, i, i)
	}
	for i := range 60 {
		fmt.Fprintf(&docs, "<p>%s <a href='/p/%d.html?v=1#s'>more</a> &amp; so on.</p>\n",
			strings.Repeat("Some <em>plain</em> words. ", 15), i)
	}
	for i := range 1000 {
		fmt.Fprintf(&list, "<a href=\"/item/%d\">%d</a><br>\n", i, i)
	}
	app.WriteString("<html><head><title>t</title><script>" + strings.Repeat("let a=1;if(a<2){a++}",
		2000) + "</script></head>")
	for i := range 100 {
		fmt.Fprintf(&app,
			`<div class="card mt-4 flex" id="c%d" data-id="%d" data-test="x"><a class="link" href="https://other%d.example/x?y=%d" rel="noopener nofollow" target="_blank"><svg viewBox="0 0 8 8" class="icon"><path d="M0 1h2v3z"/></svg><span class="label">%d</span></a></div>`, i, i, i, i, i)
	}
	return map[string][]byte{"docs": []byte(docs.String()), "list": []byte(list.String()),
		"app": []byte(app.String())}
}

// bare does the minimum of a crawler with the tokenizer.
func bare(body []byte) (links int) {
	z := html.NewTokenizer(bytes.NewReader(body))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return links
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if len(name) != 1 || name[0] != 'a' {
				continue
			}
			for more {
				var key, val []byte
				key, val, more = z.TagAttr()
				if string(key) == "href" {
					links += min(len(val), 1)
				}
			}
		}
	}
}

// ways are the ways of reading that the benchmarks compare.
var ways = []struct {
	name string
	read func([]byte)
}{
	{"bare tokenizer", func(b []byte) { bare(b) }},
	{"Page", func(b []byte) { mustRead(b, Options{}) }},
	{"Page with everything", func(b []byte) { o := everything; o.Text = 1 << 20; mustRead(b, o) }},
}

var asHTML = http.Header{"Content-Type": {"text/html"}}

func mustRead(body []byte, o Options) {
	if _, err := Page(body, asHTML, page, o); err != nil {
		panic(err)
	}
}

func BenchmarkPage(b *testing.B) {
	for name, body := range generated() {
		for _, w := range ways {
			b.Run(name+"/"+w.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					w.read(body)
				}
			})
		}
	}
}

func BenchmarkRealPages(b *testing.B) {
	var pages [][]byte
	size := 0
	realPages(b, 907, func(body []byte) {
		pages = append(pages, body)
		size += len(body)
	})
	for _, w := range ways {
		b.Run(w.name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				for _, body := range pages {
					w.read(body)
				}
			}
		})
	}
}

// BenchmarkHostile measures 1 MB of pages that are slow to parse.
func BenchmarkHostile(b *testing.B) {
	for name, body := range hostile(1 << 20) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				mustRead(body, everything)
			}
		})
	}
}

// BenchmarkRatio reads pages in turn in each way and reports the times as multiples of that of the
// bare tokenizer. It uses the fastest of several runs per page, because other work on the machine
// only adds to the time.
func BenchmarkRatio(b *testing.B) {
	var pages [][]byte
	if *htmlDir != "" {
		realPages(b, 907, func(body []byte) { pages = append(pages, body) })
	} else {
		pages = slices.Collect(maps.Values(generated()))
	}
	for b.Loop() {
		sums := make([]time.Duration, len(ways))
		for _, body := range pages {
			best := make([]time.Duration, len(ways))
			for range 7 {
				for i, w := range ways {
					start := time.Now()
					w.read(body)
					if took := time.Since(start); best[i] == 0 || took < best[i] {
						best[i] = took
					}
				}
			}
			for i := range best {
				sums[i] += best[i]
			}
		}
		for i, w := range ways {
			b.ReportMetric(float64(sums[i])/float64(sums[0]), strings.ReplaceAll(w.name, " ", "-")+
				"/bare")
		}
	}
}
