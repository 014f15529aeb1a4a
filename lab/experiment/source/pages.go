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

// write writes the pages to a directory. Each page is reached from index.html, and links to random
// others. The text has words of Zipf's distribution, so that it can be compressed about as well
// as English.
func (s siteSize) write(dir string, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	words := newVocabulary(rng)
	for i := range s.pages {
		if err := os.WriteFile(filepath.Join(dir, pageName(i)), s.page(rng, words, i),
			0o644); err != nil {
			return err
		}
	}
	return nil
}

func pageName(i int) string {
	if i == 0 {
		return "index.html"
	}
	return fmt.Sprintf("p%d.html", i)
}

// page returns page i.
func (s siteSize) page(rng *rand.Rand, words *vocabulary, i int) []byte {
	mean := float64(s.bytes) / float64(s.pages)
	size := int(mean * (0.4 + 1.2*rng.Float64()))
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!DOCTYPE html>\n<html><head><title>%s %d</title></head>\n<body>\n<ul>\n",
		words.next(), i)
	link := func(ref string) {
		fmt.Fprintf(&b, "<li><a href=\"%s\">%s</a></li>\n", ref, words.next())
	}
	for k := 1; k <= children && children*i+k < s.pages; k++ {
		link(pageName(children*i + k))
	}
	for range 3 {
		if to := rng.IntN(s.pages); to > 0 { // the index has one URL
			link(pageName(to))
		}
	}
	for k := s.outgoing * i / s.pages; k < s.outgoing*(i+1)/s.pages; k++ {
		link(fmt.Sprintf("http://h%d.invalid/", k))
	}
	b.WriteString("</ul>\n<p>")
	for n := 0; b.Len() < size; n++ {
		b.WriteString(words.next())
		if n%60 == 59 {
			b.WriteString(".</p>\n<p>")
		} else {
			b.WriteByte(' ')
		}
	}
	b.WriteString("</p>\n</body></html>\n")
	return b.Bytes()
}

// vocabulary are the words of a site.
type vocabulary struct {
	words []string
	zipf  *rand.Zipf
}

func newVocabulary(rng *rand.Rand) *vocabulary {
	const size = 4000
	v := &vocabulary{zipf: rand.NewZipf(rng, 1.1, 4, size-1)}
	for range size {
		w := make([]byte, 2+rng.IntN(9))
		for k := range w {
			w[k] = byte('a' + rng.IntN(26))
		}
		v.words = append(v.words, string(w))
	}
	return v
}

func (v *vocabulary) next() string { return v.words[v.zipf.Uint64()] }
