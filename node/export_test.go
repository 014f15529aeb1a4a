package node

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"peerd/node/config"
	"peerd/store/warc"
)

func zipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

// archiveOf creates a home with an archive of responses, by URL: the header without its end, and
// the body.
func archiveOf(t *testing.T, answers map[string][2]string) config.Home {
	t.Helper()
	home, err := config.Init(t.TempDir() + "/home")
	if err != nil {
		t.Fatal(err)
	}
	a, err := warc.Open(home.ArchiveDir(), warc.Options{MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range slices.Sorted(maps.Keys(answers)) {
		_, err := a.Append(warc.Exchange{
			URL: u, Time: time.Unix(1e9, 0), Addr: netip.MustParseAddr("192.0.2.1"),
			Request:  []byte("GET / HTTP/1.1\r\n\r\n"),
			Response: []byte("HTTP/1.1 " + answers[u][0] + "\r\n\r\n"), Body: []byte(answers[u][1]),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return home
}

func TestTexts(t *testing.T) {
	const html = "200 OK\r\nContent-Type: text/html"
	home := archiveOf(t, map[string][2]string{
		"http://a.example/page": {html,
			"<title>T &amp; t</title><p>one<p>two<script>no</script>"},
		"http://a.example/zipped": {html + "\r\nContent-Encoding: gzip",
			zipped("<title>z</title>packed")},
		"http://a.example/text": {"200 OK\r\nContent-Type: Text/Plain; charset=iso-8859-1",
			"gr\xfc\xdfe <b>"},
		"http://a.example/latin": {html + "; charset=windows-1252", "<title>\x93q\x94</title>x"},
		"http://a.example/cut": {html + "\r\nContent-Length: 999",
			"<title>c</title>as far as it came"},
		"http://a.example/nothing": {html, ""},
		"http://a.example/noindex": {html, "<meta name=robots content=noindex>secret"},
		"http://a.example/tagged":  {html + "\r\nX-Robots-Tag: peerd: noindex", "secret"},
		"http://a.example/missing": {"404 Not Found\r\nContent-Type: text/html", "secret"},
		"http://a.example/moved": {"302 Found\r\nLocation: /x\r\nContent-Type: text/html",
			"secret"},
		"http://a.example/picture": {"200 OK\r\nContent-Type: image/png", "secret"},
		"http://a.example/broken":  {html + "\r\nContent-Encoding: gzip", "no gzip, secret"},
		"http://a.example/strange": {"200 OK\r\nnonsense", "secret"},
	})
	r, err := Archive(home)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Text{
		"page":    {Title: "T & t", Charset: "utf-8", Text: "T & t\none\ntwo"},
		"zipped":  {Title: "z", Charset: "utf-8", Text: "z\npacked"},
		"text":    {Charset: "windows-1252", Text: "grüße <b>"},
		"latin":   {Title: "“q”", Charset: "windows-1252", Text: "“q”\nx"},
		"cut":     {Title: "c", Charset: "utf-8", Text: "c\nas far as it came"},
		"nothing": {Charset: "utf-8"},
	}
	err = Texts(t.Context(), r, map[string]int64{}, func(got Text) error {
		name := strings.TrimPrefix(got.URL, "http://a.example/")
		w, ok := want[name]
		w.URL, w.FetchedAt = got.URL, time.Unix(1e9, 0).UTC()
		delete(want, name)
		if got.Charset = strings.ToLower(got.Charset); !ok || got != w {
			t.Errorf("text = %+v\nwant %+v", got, w)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(want) > 0 {
		t.Errorf("Texts() omitted %v", want)
	}

	stop := errors.New("stop")
	err = Texts(t.Context(), r, map[string]int64{}, func(Text) error { return stop })
	if !errors.Is(err, stop) {
		t.Errorf("Texts() = %v, want the error of yield", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err = Texts(ctx, r, map[string]int64{}, func(Text) error { return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Texts() with an ended context = %v", err)
	}
}

// A page is got as it was, without codings, from the canonical form of its URL.
func TestGet(t *testing.T) {
	home := archiveOf(t, map[string][2]string{
		"http://a.example/page":  {"200 OK\r\nContent-Encoding: gzip", zipped("<p>x")},
		"http://a.example/page2": {"200 OK", "another"},
		"http://a.example/cut":   {"404 Not Found\r\nContent-Length: 99", "as far"},
	})
	for url, want := range map[string]string{
		"HTTP://a.example:80/x/../page#y": "<p>x", "http://a.example/cut": "as far",
	} {
		if a, err := Get(t.Context(), home, url); err != nil || string(a.Body) != want ||
			!bytes.HasPrefix(a.Head, []byte("HTTP/1.1 ")) {
			t.Errorf("Get(%s) = %q, %v, want %q", url, a.Body, err, want)
		}
	}
	if _, err := Get(t.Context(), home, "http://a.example/pag"); !errors.Is(err, ErrNotArchived) {
		t.Errorf("Get() = %v, want ErrNotArchived", err)
	}
	if _, err := Get(t.Context(), home, "page"); err == nil {
		t.Error("Get() of what is no URL = nil")
	}
}

func TestNoArchive(t *testing.T) {
	home, err := config.Init(t.TempDir() + "/home")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Archive(home); !errors.Is(err, ErrNoArchive) || !strings.Contains(err.Error(),
		home.Dir) {
		t.Errorf("Archive() of a home without archive = %v, want ErrNoArchive", err)
	}
}
