package store

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestPackLinks(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		url := rapid.Custom(func(t *rapid.T) URL {
			return URL(rapid.StringMatching(`(http://[ab]/[cd]{0,9})?[^\x00]{0,3}`).Draw(t, "url"))
		})
		page, links := url.Draw(t, "page"), rapid.SliceOf(url).Draw(t, "links")
		got, err := unpackLinks(page, packLinks(page, links))
		if err != nil || !slices.Equal(got, links) {
			t.Fatalf("unpackLinks() = %q, %v, want %q", got, err, links)
		}
	})
}

// TestPackLinksIsSmall verifies that what links share is stored once.
func TestPackLinksIsSmall(t *testing.T) {
	t.Parallel()
	page := URL("http://a.example/" + strings.Repeat("x", 1000))
	if b := packLinks(page, []URL{page + "1", page + "2", page}); len(b) > 20 {
		t.Errorf("packed links have %d bytes, want at most 20", len(b))
	}
}

func FuzzUnpackLinks(f *testing.F) {
	page := URL("http://a.example/")
	f.Add([]byte(nil))
	f.Add(packLinks(page, []URL{page + "x", "http://a.example/y", "https://b.example/"}))
	f.Add([]byte{1, 0, 1})
	f.Add([]byte{255, 255, 255, 255, 127, 17, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		links, err := unpackLinks(page, b)
		if err != nil {
			return
		}
		again, err := unpackLinks(page, packLinks(page, links))
		if err != nil || !slices.Equal(again, links) {
			t.Fatalf("unpackLinks() = %q, %v, want %q", again, err, links)
		}
	})
}
