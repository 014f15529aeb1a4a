package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/iotest"
	"time"
)

func entriesOf(t *testing.T, r *Reader, url string, m Match) (all []string) {
	t.Helper()
	err := r.Entries(t.Context(), SpanOf(url, m), func(e Entry) error {
		all = append(all, e.Time.Format("05 ")+e.URL)
		if c, err := r.ReadAt(e.Location); err != nil || c.URL != e.URL {
			return fmt.Errorf("entry %+v: %v, %w", e, c, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestEntries writes the same URLs into several files, of which the last is open.
func TestEntries(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), Options{MaxFile: 3000})
	urls := []string{"http://a.example/", "http://a.example/x", "http://a.example/x/1",
		"http://a.example/xy", "http://a.example:8080/x", "http://b.a.example/",
		"http://aa.example/"}
	for i := range 20 {
		for _, u := range urls {
			x := page(i, 100)
			x.URL, x.Time = u, time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
			appendOne(t, a, x)
		}
	}
	if n := a.Stats().Files; n < 5 {
		t.Fatalf("%d files", n)
	}
	want := func(which ...int) (all []string) {
		for _, u := range which {
			for i := range 20 {
				all = append(all, fmt.Sprintf("%02d %s", i, urls[u]))
			}
		}
		return all
	}
	check := func(r *Reader) {
		t.Helper()
		for _, c := range []struct {
			url  string
			m    Match
			want []string
		}{
			{urls[0], MatchExact, want(0)},
			{urls[1], MatchExact, want(1)},
			{"http://a.example/y", MatchExact, nil},
			{"http://zzz.example/", MatchExact, nil},
			{urls[1], MatchPrefix, want(1, 2, 3)},
			{urls[1] + "/", MatchPrefix, want(2)},
			{urls[0], MatchHost, want(0, 1, 2, 3)},
			{urls[4], MatchHost, want(4)},
			{urls[0], MatchDomain, want(0, 1, 2, 3, 5)},
		} {
			if got := entriesOf(t, r, c.url, c.m); !slices.Equal(got, c.want) {
				t.Errorf("%s, %d: %q, want %q", c.url, c.m, got, c.want)
			}
		}
	}
	check(&a.Reader)
	r, err := OpenReader(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	check(r) // as another process
	closeNow(t, a)
	check(r)
	stop := errors.New("stop")
	n := 0
	err = r.Entries(context.Background(), SpanOf(urls[0], MatchHost), func(Entry) error {
		if n++; n == 5 {
			return stop
		}
		return nil
	})
	if !errors.Is(err, stop) || n != 5 {
		t.Errorf("stopped after %d: %v", n, err)
	}
}

// TestStream reads a capture in parts, and one that was damaged.
func TestStream(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, Options{})
	x := page(1, 200_000)
	x.URL = "http://a.example/"
	appendOne(t, a, x)
	closeNow(t, a)
	r, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	var at Location
	err = r.Entries(t.Context(), SpanOf(x.URL, MatchExact), func(e Entry) error {
		at = e.Location
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func() ([]byte, int64, error) {
		s, err := r.OpenAt(at)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		body, err := io.ReadAll(iotest.OneByteReader(s))
		return body, s.Size, err
	}
	if body, n, err := read(); err != nil || !bytes.Equal(body, x.Body) || n != int64(len(body)) {
		t.Errorf("read %d bytes of %d, %v", len(body), n, err)
	}
	name := filepath.Join(dir, at.File)
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	raw[at.Offset+at.Length-6]++ // in the checksum
	if err := os.WriteFile(name, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if body, _, err := read(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("read %d bytes of a damaged record: %v", len(body), err)
	}
}
