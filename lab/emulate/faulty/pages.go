package faulty

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
)

// words are the vocabulary of all pages.
var words = strings.Fields(`amber anchor apple autumn bamboo basin beacon birch bridge bronze
	cabin canal candle canyon cedar chalk cherry cliff clover coast copper coral cotton crater
	delta desert drift ember falcon feather fern field fjord flint forest garden garnet glacier
	granite gravel harbour hazel heron hollow island ivory jasper juniper kelp lagoon lantern
	ledge lichen linen maple marble marsh meadow mineral mirror moss mountain oak ocean olive
	orchard otter pebble pepper pine plain plateau pond poplar prairie quarry quartz raven reef
	ridge river robin saddle saffron salmon sand shore silver slate spruce stone summit thistle
	timber valley velvet walnut willow winter`)

// pageWords is the number of words on a page.
const pageWords = 150

// PagePath returns the path of page k of a site. Page 0 is its first page.
func PagePath(k int) string {
	if k == 0 {
		return "/"
	}
	return fmt.Sprintf("/%s/%s-%d", words[k%7], words[k%len(words)], k)
}

// page returns the number of the page with a path, if there is one.
func (s *Site) page(path string) (k int, ok bool) {
	if i := strings.LastIndexByte(path, '-'); i >= 0 {
		k, _ = strconv.Atoi(path[i+1:])
	}
	return k, k < s.Pages && PagePath(k) == path
}

// servePage answers with page k: random text that only this page has, and the links to its
// children. Page 0 also links to the files of the site.
func (s *Site) servePage(rw http.ResponseWriter, k int) {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.Host, k)
	rng := rand.New(rand.NewPCG(h.Sum64(), 1))
	var b strings.Builder
	title := fmt.Sprintf("%s %s %d", words[rng.IntN(len(words))], words[rng.IntN(len(words))], k)
	fmt.Fprintf(&b, "<!doctype html><title>%s</title><h1>%s</h1><p>", title, title)
	for range pageWords {
		b.WriteString(words[rng.IntN(len(words))])
		b.WriteByte(' ')
	}
	b.WriteString("</p><ul>")
	for c := k*s.fan() + 1; c <= (k+1)*s.fan() && c < s.Pages; c++ {
		fmt.Fprintf(&b, `<li><a href="%s%s">%d</a>`, s.LinkPrefix, PagePath(c), c)
	}
	if k == 0 {
		for _, path := range s.filePaths() {
			fmt.Fprintf(&b, `<li><a href="%s%s">%s</a>`, s.LinkPrefix, path, path)
		}
	}
	b.WriteString("</ul>")
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	write(rw, []byte(b.String()))
}

// write answers with body, which has its length in the head.
func write(rw http.ResponseWriter, body []byte) {
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = rw.Write(body) // the log has what was sent
}
