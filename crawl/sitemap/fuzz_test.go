package sitemap

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"peerd/crawl/canon"
	"peerd/store"
)

func FuzzParse(f *testing.F) {
	f.Add(
		[]byte(
			`<?xml version="1.0"?><urlset xmlns="x"><url><loc>/a?b&c</loc><lastmod>`+
				`2024-05</lastmod><priority>1</priority></url></urlset>`), "")
	f.Add([]byte(`<sitemapindex><sitemap><loc><![CDATA[a]]></loc></sitemap></sitemapindex>`),
		"text/xml; charset=koi8-r")
	f.Add(
		[]byte(
			`<rss><channel><item><guid>http://h/</guid><pubDate>1 Jan 20 10:00 EST</pubDate></item></channel></rss>`), "")
	f.Add([]byte(`<feed xml:base="x"><entry><link href=y><updated>2024</updated></entry></feed>`),
		"")
	f.Add([]byte("http://example.org/\nx"), "")
	f.Add([]byte("\xff\xfe<\x00f\x00e\x00e\x00d\x00>\x00"), "")
	f.Add(zip([]byte("http://example.org/")), "")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		o := Options{MaxEntries: 20}
		d, err := Parse(body, contentType, at, o)
		if (err == nil) == (d.Kind == None) {
			t.Fatalf("%v, %v", d.Kind, err)
		}
		entries := slices.Concat(d.Pages, d.Sitemaps)
		if len(entries) > o.MaxEntries || d.Dropped > 0 && len(entries)+d.Invalid < o.MaxEntries {
			t.Fatalf("%d entries, %d dropped", len(entries), d.Dropped)
		}
		for _, e := range entries {
			if u, err := canon.Parse(string(e.URL)); err != nil || u != e.URL {
				t.Fatalf("%q is not canonical", e.URL)
			}
			if e.LastMod.Location() != time.UTC {
				t.Fatalf("%+v", e)
			}
		}
		if again, _ := Parse(body, contentType, at, o); !slices.Equal(short(again), short(d)) {
			t.Fatalf("Parse() = %q, then %q", short(d), short(again))
		}
		if len(body) > 2 && body[0] != 0x1f { // packed is the same
			packed, err2 := Parse(zip(body), contentType, at, o)
			if !slices.Equal(short(packed), short(d)) || (err == nil) != (err2 == nil) {
				t.Fatalf("Parse() of the compressed document = %q, %v", short(packed), err2)
			}
		}
	})
}

// entries generates entries of a sitemap; write writes them.
var entries = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Entry {
	path := rapid.StringMatching(`[a-z&<>"'?=;/äж]{0,20}`).Draw(t, "path")
	u, err := canon.Parse("http://example.org/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return Entry{
		URL:     u,
		LastMod: time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "lastmod"), 0).UTC(),
	}
}), 0, 20)

func write(es []Entry) []byte {
	var b bytes.Buffer
	b.WriteString(
		`<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, e := range es {
		b.WriteString("<url><loc>")
		xml.EscapeText(&b, []byte(e.URL))
		fmt.Fprintf(&b,
			"</loc><lastmod>%s</lastmod><changefreq>daily</changefreq></url>\n",
			e.LastMod.Format(time.RFC3339))
	}
	b.WriteString("</urlset>")
	return b.Bytes()
}

func TestParseWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := entries.Draw(t, "entries")
		d, err := Parse(write(want), "", at, Options{})
		if err != nil || !slices.Equal(d.Pages, want) || d.Invalid+d.Dropped != 0 || d.Truncated {
			t.Fatalf("Parse() = %+v, %v, want pages %+v", d, err, want)
		}
	})
}

// TestParsePrefix verifies that a document that was cut yields its first pages, and is marked as
// truncated.
func TestParsePrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := entries.Draw(t, "entries")
		body := write(want)
		cut := rapid.IntRange(0, len(body)-1).Draw(t, "cut")
		d, err := Parse(body[:cut], "", at, Options{})
		if err != nil {
			if bytes.Contains(body[:cut], []byte("0.9\">")) {
				t.Fatal(err)
			}
			return
		}
		if !d.Truncated || len(d.Pages) > len(want) {
			t.Fatalf("truncated %v, %d pages of %d", d.Truncated, len(d.Pages), len(want))
		}
		for i, e := range d.Pages {
			if e != want[i] && (e.URL != want[i].URL || i != len(d.Pages)-1) {
				t.Fatalf("page %d: %+v, want %+v", i, e, want[i])
			}
		}
		if whole := bytes.Count(body[:cut], []byte("</url>")); len(d.Pages) < whole {
			t.Fatalf("%d pages of %d", len(d.Pages), whole)
		}
	})
}

func benchmark(b *testing.B, body []byte, size int) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	for b.Loop() {
		if d, err := Parse(body, "", at, Options{}); err != nil || len(d.Pages) != 10000 {
			b.Fatal(len(d.Pages), err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	var es []Entry
	for i := range 10000 {
		es = append(es, Entry{URL: store.URL(
			fmt.Sprintf("http://example.org/category-%d/article/%d.html", i%17, i)),
			LastMod: time.Unix(int64(i)*1e5, 0).UTC()})
	}
	body := write(es)
	var list strings.Builder
	for _, e := range es {
		list.WriteString(string(e.URL) + "\n")
	}
	b.Run("xml", func(b *testing.B) { benchmark(b, body, len(body)) })
	b.Run("gzip", func(b *testing.B) { benchmark(b, zip(body), len(body)) })
	b.Run("list", func(b *testing.B) { benchmark(b, []byte(list.String()), list.Len()) })
	b.Run("encoding/xml alone", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		b.ReportAllocs()
		for b.Loop() {
			d := xml.NewDecoder(bytes.NewReader(body))
			for {
				if _, err := d.RawToken(); err != nil {
					break
				}
			}
		}
	})
}
