package source

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// siteSize is the size of a generated site.
type siteSize struct {
	pages    int
	outgoing int // links to other hosts, all different
	bytes    int
}

// scaled returns a site with a share of the pages, of the same mean size.
func (s siteSize) scaled(by float64) siteSize {
	return siteSize{max(int(by*float64(s.pages)), 20), int(by * float64(s.outgoing)),
		max(int(by*float64(s.bytes)), 20*s.bytes/s.pages)}
}

// children is the number of pages that a page is the first to link to.
const children = 4

// perDirectory is the number of pages in a directory. Crawlers take a directory of thousands for a
// trap.
const perDirectory = 30

// generator writes the pages of a site.
type generator struct {
	siteSize
	rng   *rand.Rand
	words *vocabulary
	paths []string // of the pages; the index is the first
}

// write writes the pages to a directory. Each page is reached from the index, and links to random
// others. The text has words of Zipf's distribution, so that it can be compressed about as well
// as English.
func (s siteSize) write(dir string, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &generator{siteSize: s, rng: rng, words: newVocabulary(rng), paths: []string{"/"}}
	for i := 1; i < s.pages; i++ {
		g.paths = append(g.paths, "/"+g.words.words[i/perDirectory]+"/"+g.words.words[i]+".html")
	}
	for i, path := range g.paths {
		if path == "/" {
			path = "/index.html"
		}
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, g.page(i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// page returns page i.
func (g *generator) page(i int) []byte {
	mean := float64(g.bytes) / float64(g.pages)
	size := int(mean * (0.4 + 1.2*g.rng.Float64()))
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head><title>%s %s</title></head>\n<body>\n<ul>\n",
		g.words.next(), g.words.next())
	link := func(ref string) {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", ref, g.words.next())
	}
	for k := children*i + 1; k <= children*(i+1) && k < g.pages; k++ {
		link(g.paths[k])
	}
	for range 3 {
		link(g.paths[g.rng.IntN(g.pages)])
	}
	for k := g.outgoing * i / g.pages; k < g.outgoing*(i+1)/g.pages; k++ {
		link(fmt.Sprintf("http://h%d.invalid/", k))
	}
	b.WriteString("</ul>\n<p>")
	for n := 0; b.Len() < size; n++ {
		b.WriteString(g.words.next())
		if n%60 == 59 {
			b.WriteString(".</p>\n<p>")
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteString("</p>\n</body></html>\n")
	return b.Bytes()
}

// vocabulary are the words of a site, all different.
type vocabulary struct {
	words []string
	zipf  *rand.Zipf
}

func newVocabulary(rng *rand.Rand) *vocabulary {
	const size = 4000
	v := &vocabulary{zipf: rand.NewZipf(rng, 1.1, 4, size-1)}
	seen := map[string]bool{}
	for len(v.words) < size {
		w := make([]byte, 3+rng.IntN(8))
		for k := range w {
			w[k] = byte('a' + rng.IntN(26))
		}
		if !seen[string(w)] {
			seen[string(w)] = true
			v.words = append(v.words, string(w))
		}
	}
	return v
}

func (v *vocabulary) next() string { return v.words[v.zipf.Uint64()] }
