package similar

import (
	"strings"
	"testing"

	"peerd/store"
)

// TestTextHash: short texts are near only if they have the same words, apart from numbers and
// those of the URL. Long texts have their Fingerprint.
func TestTextHash(t *testing.T) {
	hash := func(text, u string) Simhash {
		return TextHash(text, store.URL("http://a.example"+u))
	}
	const text = "Events 2026/11\nNothing here yet. 12"
	first := hash(text, "/2026/11")
	for _, c := range []struct {
		text, url string
		near      bool
	}{
		{text, "/other", true},
		{"Events 1999/1 Nothing here YET. 3 4 5d", "/", true},
		{"Events Nothing here yet, river", "/lost-River/x", true},
		{"Events Nothing here yet, river", "/lost", false},
		{"Events Nothing here", "/", false},
		{"Events Here nothing yet", "/", false},
		{"", "/", false},
	} {
		if near := hash(c.text, c.url).Distance(first) <= Near; near != c.near {
			t.Errorf("%s at %s: near %v, want %v", c.text, c.url, near, c.near)
		}
	}
	long := strings.Join(newAuthor(1).text(200), " ")
	if want, _ := Fingerprint(long); TextHash(long, "http://a.example/") != want {
		t.Error("a long text does not have its fingerprint")
	}
	if hash("", "/") == 0 || hash("12 34", "/") != hash("", "/56") {
		t.Error("a page without words has no hash")
	}
}

func FuzzTextHash(f *testing.F) {
	f.Add("a b 12 c", "http://a.example/b")
	f.Fuzz(func(t *testing.T, text, u string) {
		first, second := TextHash(text, store.URL(u)), TextHash(text, store.URL(u))
		if first != second {
			t.Error("two calls differ")
		}
	})
}
