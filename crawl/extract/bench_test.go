package extract

import (
	"fmt"
	"strings"
	"testing"
)

func BenchmarkHTML(b *testing.B) {
	var s strings.Builder
	s.WriteString("<!doctype html><html><head><title>t</title><link rel=stylesheet href=s.css></head><body><nav>")
	for i := range 60 {
		fmt.Fprintf(&s, "<li class=item><a class='nav link' href='../part%d/page-%d.html'>Page %d</a></li>\n", i, i, i)
	}
	for i := range 60 {
		fmt.Fprintf(&s, "<p>%s <a href='/p/%d.html?v=1#s'>more</a> &amp; so on.</p>\n", strings.Repeat("Some <em>plain</em> words. ", 15), i)
	}
	body := []byte(s.String())
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if d, _ := HTML(body, "text/html", page, Options{}); len(d.Links) != 120 {
			b.Fatal(len(d.Links))
		}
	}
}

// BenchmarkHostile is 1 MB of what makes parsers slow.
func BenchmarkHostile(b *testing.B) {
	for _, unit := range []string{"<a href=x>", "<b><p>", "<table><b>", "<svg><a>", "<i></p>", "<font a=1><font a=2></p>", "<", "<a b=", "&", "<select><option>"} {
		body := []byte(strings.Repeat(unit, 1<<20/len(unit)))
		b.Run(unit, func(b *testing.B) {
			for b.Loop() {
				if _, err := HTML(body, "text/html", page, Options{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
