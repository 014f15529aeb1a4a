package extract

import (
	"maps"
	"testing"
	"unicode/utf8"

	"peerd/crawl/canon"
)

func FuzzHTML(f *testing.F) {
	for _, tag := range tags {
		f.Add([]byte(tag+"<a href=z>"), "text/html; charset=utf-8")
	}
	f.Add([]byte("<meta charset=shift_jis><meta http-equiv=refresh content='0;url=\x83c'><title>\x83"), "")
	f.Add([]byte("\xff\xfe<\x00a\x00"), "text/html; charset=utf-7")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		d, err := HTML(body, contentType, page, Options{})
		if (err == nil) != IsHTML(contentType) {
			t.Fatalf("error %v for %q", err, contentType)
		}
		if len(d.Title) > maxTitle || !utf8.ValidString(d.Title) || len(d.Links) > DefaultMaxLinks {
			t.Fatalf("title %q, %d links", d.Title, len(d.Links))
		}
		for _, l := range d.Links {
			if u, err := canon.Parse(string(l.URL)); err != nil || u != l.URL {
				t.Fatalf("link %q is not canonical", l.URL)
			}
		}
		if contentType != "text/html; charset=utf-8" || len(body) > 1<<16 {
			return
		}
		refreshes := 0
		for _, l := range d.Links {
			if l.Element == "meta" {
				refreshes++
			}
		}
		if want, ok := oracle(decoded(body, contentType), page); ok && refreshes == 0 && plainRels(d) && !maps.Equal(linkSet(d), want) {
			t.Fatalf("%q: %v, want %v", body, linkSet(d), want)
		}
	})
}

// plainRels says that no relation is one that the oracle does not know.
func plainRels(d Document) bool {
	for _, l := range d.Links {
		if l.Element == "link" && l.Rel != "" {
			return false
		}
	}
	return true
}

func decoded(body []byte, contentType string) []byte {
	text, _ := decode(body, contentType)
	return text
}
