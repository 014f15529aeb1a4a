package hostile

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strconv"
	"strings"
)

// words are the words of prose.
var words = strings.Fields(`river stone lantern harbour meadow copper winter bridge violet orchard
 signal marble canyon feather thunder willow anchor basket candle desert engine forest garden hammer
 island jacket kettle ladder mirror needle ocean pepper quartz ribbon saddle tunnel umbrella velvet
 window yellow zephyr almond barrel cactus dragon ember falcon glacier hazel ivory jasmine kernel
 lemon magnet nectar olive parrot quiver rocket silver timber urchin valley walnut`)

// prose returns a text that depends only on key.
func prose(key string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(key))
	r := rand.New(rand.NewPCG(h.Sum64(), 1))
	var s strings.Builder
	for range 6 {
		s.WriteString("<p>")
		for range 30 {
			s.WriteString(words[r.IntN(len(words))] + " ")
		}
		s.WriteString("</p>\n")
	}
	return s.String()
}

// linked returns a page with individual text.
func linked(key string, hrefs ...string) string {
	return "<!doctype html><title>" + escape(key) + "</title>\n" + prose(key) + anchors(hrefs)
}

// empty returns a page with the same text as all others of its site.
func empty(title string, hrefs ...string) string {
	return "<!doctype html><title>" + escape(title) +
		"</title>\n<p>There is nothing here yet. Please look again later.</p>\n" + anchors(hrefs)
}

func anchors(hrefs []string) string {
	var s strings.Builder
	for i, h := range hrefs {
		fmt.Fprintf(&s, "<a href=\"%s\">%d</a>\n", escape(h), i+1)
	}
	return s.String()
}

var escape = strings.NewReplacer("&", "&amp;", "\"", "&quot;", "<", "&lt;").Replace

// numbered returns prefix1 to prefixN.
func numbered(prefix string, n int) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = prefix + strconv.Itoa(i+1)
	}
	return s
}
