package extract

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// hostile are pages of about that size, in bytes, that are slow to read or
// grow when they are read.
func hostile(size int) map[string][]byte {
	pages := map[string][]byte{}
	for _, unit := range []string{
		"<a href=x>", "<b><p>", "<table><b>", "<svg><a>", "<svg>", "<math><mi>", "<i></p>", "<font a=1><font a=2></p>", "<", "<a b=", "&", "<!--", "</",
		"<select><option>", "<style>@import", "<style>/*", "<style>\\", "<img srcset='a(", "<template>", "<form>", "<title>", "<a href=java:x>", "<?",
		"<meta name=robots content='unavailable_after:", "<a href=&", "<svg><title>", "<svg><style><![CDATA[a", "<table><base href=x>",
	} {
		body := strings.Repeat(unit, size/len(unit))
		pages[unit] = []byte(body)
		pages[unit+" in a tree"] = []byte("<math><annotation-xml><p>" + body)
	}
	open := "<math></math><frameset>"
	var fonts strings.Builder
	for i := range 480 {
		fmt.Fprintf(&fonts, "<font a=%d>", i)
	}
	pages["opened again"] = []byte("<p>" + fonts.String() + "</p>" + strings.Repeat("<div>x</div>", size/12) + open)
	pages["opened again in few bytes"] = []byte("<p>" + fonts.String() + "</p>" + strings.Repeat("<hr>", size/4) + open)
	var roots, names strings.Builder
	for i := range size / 2 / 14 {
		fmt.Fprintf(&roots, "<html a%06d>", i)
	}
	pages["many roots"] = []byte(roots.String() + open)
	names.WriteString("<a")
	for i := range size / 2 / 8 {
		fmt.Fprintf(&names, " a%06d", i)
	}
	pages["many attributes"] = []byte(names.String() + ">" + strings.Repeat("<a b>", size/10) + open)
	pages["many attributes of a script"] = []byte("<script" + names.String() + ">" + strings.Repeat("<a b>", size/10) + "</script>")
	noise := make([]byte, size)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range noise {
		noise[i] = "<>/a!-=\"' &;tdsvg"[r.IntN(17)]
	}
	pages["noise"] = noise
	return pages
}

// A page twice as large takes at most about twice as long, and none is slow.
func TestHostilePagesAreRead(t *testing.T) {
	const size = 256 << 10
	for name, body := range hostile(size) {
		start := time.Now()
		o := everything
		o.Text = 1 << 20
		d, err := HTML(body, "text/html", page, o)
		if took := time.Since(start); err != nil || took > 5*time.Second {
			t.Errorf("%s: %v, %v", name, took, err)
		}
		if len(d.Links) > DefaultMaxLinks || len(d.Text) > 1<<20 {
			t.Errorf("%s: %d links, %d bytes of text", name, len(d.Links), len(d.Text))
		}
	}
}
