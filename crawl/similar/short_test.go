package similar

import (
	"testing"

	"peerd/store"
)

// TestTextHash: short texts are near only if they have the same words, apart from numbers and
// those of the URL. Long texts have their Fingerprint.
func TestTextHash(t *testing.T) {
	hash := func(text, u string) Simhash {
		return TextHash([]byte(text), store.URL("http://a.example"+u))
	}
	const text = "<title>Events 2026/11</title><p>Nothing <b>here</b> yet. <a href=x>12</a>"
	first := hash(text, "/2026/11")
	for _, c := range []struct {
		text, url string
		near      bool
	}{
		{text, "/other", true},
		{"<title>Events 1999/1</title><p>Nothing here YET. <a href=y>3</a> 4 5d", "/", true},
		{"<title>Events</title><p>Nothing here yet, river", "/lost-River/x", true},
		{"<title>Events</title><p>Nothing here yet, river", "/lost", false},
		{"<title>Events</title><p>Nothing here <script>yet</script>", "/", false},
		{"<title>Events</title><p>Here nothing yet", "/", false},
		{"", "/", false},
	} {
		if near := hash(c.text, c.url).Distance(first) <= Near; near != c.near {
			t.Errorf("%s at %s: near %v, want %v", c.text, c.url, near, c.near)
		}
	}
	long := page(newAuthor(1).text(200))
	if want, _ := Fingerprint(long); TextHash(long, "http://a.example/") != want {
		t.Error("a long text does not have its fingerprint")
	}
	if hash("", "/") == 0 || hash("12 34", "/") != hash("", "/56") {
		t.Error("a page without words has no hash")
	}
}

func FuzzTextHash(f *testing.F) {
	f.Add([]byte("<title>a</title>b 12 c"), "http://a.example/b")
	f.Fuzz(func(t *testing.T, text []byte, u string) {
		first, second := TextHash(text, store.URL(u)), TextHash(text, store.URL(u))
		if first != second {
			t.Error("two calls differ")
		}
	})
}
