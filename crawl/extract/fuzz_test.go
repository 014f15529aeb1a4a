package extract

import (
	"net/http"
	"testing"
	"unicode/utf8"

	"peerd/crawl/canon"
)

func FuzzHTML(f *testing.F) {
	for _, tag := range tags {
		f.Add([]byte(tag+"<a href=z>"), "text/html; charset=utf-8")
	}
	f.Add(
		[]byte(
			"<meta charset=shift_jis><meta http-equiv=refresh content='0;url=\x83c'><title>\x83"),
		"")
	f.Add([]byte("\xff\xfe<\x00a\x00"), "text/html; charset=utf-7")
	f.Fuzz(func(t *testing.T, body []byte, contentType string) {
		d, err := pageOf(body, contentType, page, Options{})
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
	})
}

func FuzzPage(f *testing.F) {
	for _, s := range soup {
		f.Add([]byte(s), `<x>; rel="next"; title*=UTF-8''a, <y>;rel=canonical`,
			"peerd: unavailable_after: Wed, 03 Dec 2025 13:09:53 GMT, none", "1;url=x", "text/html",
			uint8(15))
	}
	f.Add([]byte("<title>\xff"), "<", ":", ";", "application/xhtml+xml; charset=utf-16", uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, link, robots, refresh, contentType string, kinds uint8) {
		before := string(body)
		h := http.Header{"Link": {link, link}, "X-Robots-Tag": {robots}, "Refresh": {refresh},
			"Content-Type": {contentType}}
		o := Options{Kinds: Kinds(kinds), Agent: "peerd", Text: 100, MaxLinks: 50}
		d, err := Page(body, h, page, o)
		if (err == nil) != IsHTML(contentType) || string(body) != before {
			t.Fatalf("error %v for %q, body %q", err, contentType, body)
		}
		if len(d.Title) > maxTitle || len(d.Text) > o.Text || !utf8.ValidString(d.Title+d.Text) ||
			len(d.Links) > o.MaxLinks {
			t.Fatalf("title %q, text %q, %d links", d.Title, d.Text, len(d.Links))
		}
		for _, l := range append(d.Links, Link{URL: d.Canonical}, Link{URL: d.Base}) {
			if u, err := canon.Parse(string(l.URL)); l.URL != "" && (err != nil || u != l.URL) ||
				!utf8.ValidString(l.Rel) {
				t.Fatalf("link %+v is not canonical", l)
			}
		}
	})
}
