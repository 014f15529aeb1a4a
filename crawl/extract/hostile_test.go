package extract

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// hostile returns pages of about size bytes that are slow to parse, or grow when they are parsed.
func hostile(size int) map[string][]byte {
	pages := map[string][]byte{}
	for _, unit := range []string{
		"<a href=x>", "<b><p>", "<table><b>", "<svg><a>", "<svg>", "<math><mi>", "<i></p>",
		"<font a=1><font a=2></p>", "<", "<a b=", "&", "<!--", "</", "<select><option>",
		"<style>@import", "<style>/*", "<style>\\", "<img srcset='a(", "<template>", "<form>",
		"<title>", "<a href=java:x>", "<?", "<meta name=robots content='unavailable_after:",
		"<a href=&", "<svg><title>", "<svg><style><![CDATA[a", "<table><base href=x>",
	} {
		body := strings.Repeat(unit, size/len(unit))
		pages[unit] = []byte(body)
	}
	open := "<math></math><frameset>"
	var fonts strings.Builder
	for i := range 480 {
		fmt.Fprintf(&fonts, "<font a=%d>", i)
	}
	pages["opened again"] = []byte("<p>" + fonts.String() + "</p>" + strings.Repeat("<div>x</div>",
		size/12) + open)
	pages["opened again in few bytes"] = []byte("<p>" + fonts.String() + "</p>" +
		strings.Repeat("<hr>", size/4) + open)
	var roots, names strings.Builder
	for i := range size / 2 / 14 {
		fmt.Fprintf(&roots, "<html a%06d>", i)
	}
	pages["many roots"] = []byte(roots.String() + open)
	names.WriteString("<a")
	for i := range size / 2 / 8 {
		fmt.Fprintf(&names, " a%06d", i)
	}
	pages["many attributes"] = []byte(names.String() + ">" + strings.Repeat("<a b>", size/10) +
		open)
	pages["many attributes of a script"] = []byte("<script" + names.String() + ">" +
		strings.Repeat("<a b>", size/10) + "</script>")
	noise := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "<>/a!-=\"' &;tdsvg"[r.IntN(17)]
	}
	pages["noise"] = noise
	return pages
}

// TestHostilePages verifies the limits on what is extracted from such pages.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	const size = 256 << 10
	for name, body := range hostile(size) {
		o := everything
		o.Text = 1 << 20
		d, err := pageOf(body, "text/html", page, o)
		if err != nil {
			t.Errorf("Page(%s): error %v", name, err)
		}
		if len(d.Links) > DefaultMaxLinks || len(d.Text) > 1<<20 {
			t.Errorf("%s: %d links, %d bytes of text, want at most %d, %d",
				name, len(d.Links), len(d.Text), DefaultMaxLinks, 1<<20)
		}
	}
}

// TestReferencesAreLimited has a page of long references that take long to resolve.
func TestReferencesAreLimited(t *testing.T) {
	t.Parallel()
	ref := strings.Repeat("\u4e00", 600)
	n := maxReferences/len(ref) + 100
	d, err := pageOf([]byte(strings.Repeat("<a href="+ref+">", n)), "text/html", page, everything)
	if err != nil || d.Dropped != 100 || len(d.Links)+d.Invalid != n-100 {
		t.Errorf("%d links, %d invalid, %d dropped of %d, want 100 dropped", len(d.Links),
			d.Invalid, d.Dropped, n)
	}
}

// TestReplaceTokenizer verifies that the tokenizer is replaced after a large tag.
func TestReplaceTokenizer(t *testing.T) {
	t.Parallel()
	large := "<a" + strings.Repeat(" x", maxTag) + ">"
	for body, want := range map[string]bool{
		"<a href=1>": false, large: true, "<svg>" + large: true,
	} {
		c := newCollector(page, Options{}.withDefaults())
		s := newScanner([]byte(body), c, false)
		first := s.z
		if s.run(); (s.z != first) != want {
			t.Errorf("%.20s: tokenizer replaced: %v, want %v", body, s.z != first, want)
		}
	}
}
