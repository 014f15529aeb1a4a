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
	"strings"
	"sync"
	"testing"
)

func TestRecords(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, Options{})
	empty := page(3, 0)
	noResponse := page(4, 0)
	noResponse.Response, noResponse.Body, noResponse.Protocols = nil, nil, nil
	cut := page(5, 1000)
	cut.Truncated = "length"
	odd := page(6, 100)
	odd.Response = []byte("HTTP/1.1 200\r\ncontent-type:text/\xe4\"x\r\n\r\n")
	odd.Metadata = []Field{{"note", "a\r\nb\x00\xff"}}
	first := appendOne(t, a, page(1, 20000))
	for _, x := range []Exchange{page(2, 500), revisit(1, NotModified, ""),
		revisit(1, IdenticalPayload, first.Digest), empty, noResponse, cut, odd} {
		loc := appendOne(t, a, x)
		if x.Response == nil {
			continue
		}
		c, err := a.ReadAt(loc)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Head, x.Response) || x.Revisit == nil && !bytes.Equal(c.Body, x.Body) ||
			c.Truncated != x.Truncated && x.Revisit == nil || !c.Time.Equal(x.Time) {
			t.Fatalf("ReadAt() = %+v, want %+v", c, x)
		}
	}
	closeNow(t, a)
	all := checkStrict(t, readFile(t, dir, first.File))
	checkIndexes(t, a)
	kinds := map[string]int{}
	for _, p := range all {
		kinds[p.get("warc-type")]++
	}
	if got, want := fmt.Sprint(kinds),
		"map[metadata:8 request:8 response:5 revisit:2 warcinfo:1]"; got != want {
		t.Errorf("record types are %s, want %s", got, want)
	}
	want := map[string]string{"warc-ip-address": "192.0.2.7", "warc-protocol": "http/1.1",
		"warc-cipher-suite": "TLS_AES_128_GCM_SHA256",
		"content-type":      "application/http;msgtype=response",
		"warc-date":         "2026-01-02T03:04:06.678901Z"}
	for k, v := range want {
		if got := all[1].get(k); got != v {
			t.Errorf("%s is %q, want %q", k, got, v)
		}
	}
	if !bytes.Contains(all[0].block, []byte("operator: Test <test@example.org>\r\n")) ||
		all[0].get("warc-filename") != first.File {
		t.Errorf("warcinfo record is %v %s, want the options", all[0].header, all[0].block)
	}
	r := all[10]
	if r.get("warc-type") != "revisit" || r.get("warc-profile") != IdenticalPayload ||
		r.get("warc-payload-digest") != first.Digest ||
		r.get("warc-refers-to-target-uri") != page(1, 0).URL ||
		r.get("warc-refers-to-date") != "2026-01-02T03:04:06.678901Z" {
		t.Errorf("revisit record is %v, want one of page 1", r.header)
	}
	var got []string
	if err := a.Follow(t.Context(), map[string]int64{}, func(r Record) error {
		got = append(got, r.Type)
		return nil
	}); err != nil || len(got) != len(all) {
		t.Errorf("Follow() = %v after %d records, want nil after %d", err, len(got), len(all))
	}
	if _, err := a.Append(page(1, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("Append() after Close() = %v, want ErrClosed", err)
	}
}

func TestInvalid(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), Options{})
	for name, fn := range map[string]func(*Exchange){
		"no URL":          func(x *Exchange) { x.URL = "" },
		"line in URL":     func(x *Exchange) { x.URL += "\r\nX: y" },
		"long URL":        func(x *Exchange) { x.URL += strings.Repeat("x", maxURL) },
		"half head":       func(x *Exchange) { x.Response = x.Response[:len(x.Response)-2] },
		"body in head":    func(x *Exchange) { x.Response = append(x.Response, "x\r\n\r\n"...) },
		"request head":    func(x *Exchange) { x.Request = []byte("GET / HTTP/1.1\r\n") },
		"no status line":  func(x *Exchange) { x.Response = []byte("x\r\n\r\n") },
		"truncated":       func(x *Exchange) { x.Truncated = "why" },
		"protocol":        func(x *Exchange) { x.Protocols = []string{"a\nb"} },
		"metadata":        func(x *Exchange) { x.Metadata = []Field{{"a b", ""}} },
		"body alone":      func(x *Exchange) { x.Response = nil },
		"revisit profile": func(x *Exchange) { x.Revisit = &Revisit{} },
		"revisit digest": func(x *Exchange) {
			x.Revisit = &Revisit{Profile: NotModified, Digest: "a\r\nb"}
		},
		"no digest": func(x *Exchange) { x.Revisit = &Revisit{Profile: IdenticalPayload} },
		"nothing":   func(x *Exchange) { *x = Exchange{URL: x.URL} },
	} {
		x := page(1, 10)
		fn(&x)
		if _, err := a.Append(x); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: Append() = %v, want ErrInvalid", name, err)
		}
	}
	for _, o := range []Options{{MaxFile: -1}, {Quota: -1},
		{Info: []Field{{"a b", "c"}}}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("Open(%+v) succeeded, want an error", o)
		}
	}
}

// TestConcurrent appends in several goroutines to files that fill up, while others copy,
// index and sync.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, Options{MaxFile: 40 << 10})
	_, err := Open(dir, Options{Logger: silent})
	wantErr(t, err, ErrLocked)
	other, err := OpenReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var locs sync.Map
	for g := range 4 {
		wg.Go(func() {
			for i := range 60 {
				n := g*1000 + i
				loc, err := a.Append(page(n, 3000))
				if err != nil {
					t.Error(err)
					return
				}
				locs.Store(n, loc)
				if i%20 == 0 {
					if err := a.Sync(); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for _, r := range []*Reader{&a.Reader, other} {
		readers.Go(func() {
			for ctx.Err() == nil {
				readPlain(t, copyAll(t, r))
				var b bytes.Buffer
				if err := r.Index(t.Context(), &b); err != nil {
					t.Error(err)
				}
				readIndex(t, b.Bytes())
			}
		})
	}
	wg.Wait()
	var b bytes.Buffer
	if err := a.Index(t.Context(), &b); err != nil || bytes.Count(b.Bytes(), []byte("\n")) != 240 {
		t.Errorf("Index() of an open archive = %v, %d lines, want 240", err,
			bytes.Count(b.Bytes(), []byte("\n")))
	}
	stop()
	readers.Wait()
	closeNow(t, a)
	checkStrict(t, copyAll(t, other))
	checkIndexes(t, a)
	locs.Range(func(n, l any) bool {
		if c, err := other.ReadAt(l.(Location)); err != nil || c.URL != page(n.(int), 0).URL {
			t.Errorf("ReadAt(%v) = %v, want page %v", l, err, n)
		}
		return true
	})
	var onDisk int64
	for _, n := range names(t, dir) {
		if strings.HasSuffix(n, openSuffix) || strings.HasSuffix(n, tmpSuffix) {
			t.Errorf("file %s still exists", n)
		}
		onDisk += int64(len(readFile(t, dir, n)))
	}
	s := a.Stats()
	if s.Bytes != onDisk || s.Exchanges != 240 || 2*s.Files != len(names(t, dir)) ||
		s.Records != int64(3*240+s.Files) {
		t.Errorf("Stats() = %+v, want 240 exchanges, %d bytes and files for %d names", s, onDisk,
			len(names(t, dir)))
	}
}

// With a maximum file size of one byte, each exchange gets its own file, even if several
// are appended concurrently.
func TestTinyFiles(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), Options{MaxFile: 1})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 5 {
				if _, err := a.Append(page(g*10+i, 100)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	closeNow(t, a)
	if s := a.Stats(); s.Files != 20 {
		t.Errorf("Stats() = %+v, want 20 files", s)
	}
	checkStrict(t, copyAll(t, &a.Reader))
	checkIndexes(t, a)
}

// An index that was deleted is built again.
func TestMissingIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a := open(t, dir, Options{})
	loc := appendOne(t, a, page(1, 100))
	appendOne(t, a, revisit(1, IdenticalPayload, loc.Digest))
	closeNow(t, a)
	want := readFile(t, dir, indexName(loc.File))
	if err := os.Remove(filepath.Join(dir, indexName(loc.File))); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := a.Index(t.Context(), &b); err != nil || !bytes.Equal(b.Bytes(), want) {
		t.Errorf("Index() without index file = %v\n%s\nwant\n%s", err, b.Bytes(), want)
	}
	closeNow(t, open(t, dir, Options{}))
	if got := readFile(t, dir, indexName(loc.File)); !bytes.Equal(got, want) {
		t.Errorf("index is\n%s\nwant\n%s", got, want)
	}
}

// TestSort sorts more lines than fit into memory.
func TestSort(t *testing.T) {
	t.Parallel()
	s := newSorter()
	s.limit = 2000
	defer s.close()
	var want []string
	for i := range 5000 {
		l := fmt.Sprintf("%d %s", i*7919%5003, strings.Repeat("x", i%50))
		want = append(want, l+"\n")
		if err := s.add([]byte(l)); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.runs) < 50 {
		t.Fatalf("sorter made %d runs, want at least 50", len(s.runs))
	}
	slices.Sort(want)
	var b bytes.Buffer
	err := merge(t.Context(), &b, s.sources())
	if err != nil || b.String() != strings.Join(want, "") {
		t.Errorf("merge() = %v, %d bytes, want %d sorted lines", err, b.Len(), len(want))
	}
	bad := func() io.Reader { return strings.NewReader("no line feed") }
	wantErr(t, merge(t.Context(), io.Discard, []source{bad}), ErrCorrupt)
}
