package warc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRecords(t *testing.T) {
	dir := t.TempDir()
	a := open(t, dir, Options{})
	empty := page(3, 0)
	noAnswer := page(4, 0)
	noAnswer.Response, noAnswer.Body, noAnswer.Protocols = nil, nil, nil
	cut := page(5, 1000)
	cut.Truncated = "length"
	odd := page(6, 100)
	odd.Response = []byte("HTTP/1.1 200\r\ncontent-type:text/\xe4\"x\r\n\r\n")
	odd.Metadata = []Field{{"note", "a\r\nb\x00\xff"}}
	first := appendOne(t, a, page(1, 20000))
	for _, x := range []Exchange{page(2, 500), revisit(1, NotModified, ""), revisit(1, IdenticalPayload, first.Digest), empty, noAnswer, cut, odd} {
		loc := appendOne(t, a, x)
		if x.Response == nil {
			continue
		}
		c, err := a.ReadAt(loc)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Head, x.Response) || x.Revisit == nil && !bytes.Equal(c.Body, x.Body) || c.Truncated != x.Truncated && x.Revisit == nil || !c.Time.Equal(x.Time) {
			t.Fatalf("read %+v, wrote %+v", c, x)
		}
	}
	closeNow(t, a)
	all := checkStrict(t, readFile(t, dir, first.File))
	checkIndexes(t, a)
	kinds := map[string]int{}
	for _, p := range all {
		kinds[p.get("warc-type")]++
	}
	if want := "map[metadata:8 request:8 response:5 revisit:2 warcinfo:1]"; fmt.Sprint(kinds) != want {
		t.Errorf("%v, want %s", kinds, want)
	}
	want := map[string]string{"warc-ip-address": "192.0.2.7", "warc-protocol": "http/1.1", "warc-cipher-suite": "TLS_AES_128_GCM_SHA256",
		"content-type": "application/http;msgtype=response", "warc-date": "2026-01-02T03:04:06.678901Z"}
	for k, v := range want {
		if got := all[1].get(k); got != v {
			t.Errorf("%s is %q, want %q", k, got, v)
		}
	}
	if !bytes.Contains(all[0].block, []byte("operator: Test <test@example.org>\r\n")) || all[0].get("warc-filename") != first.File {
		t.Errorf("warcinfo %v %s", all[0].header, all[0].block)
	}
	r := all[10]
	if r.get("warc-type") != "revisit" || r.get("warc-profile") != IdenticalPayload || r.get("warc-payload-digest") != first.Digest ||
		r.get("warc-refers-to-target-uri") != page(1, 0).URL || r.get("warc-refers-to-date") != "2026-01-02T03:04:06.678901Z" {
		t.Errorf("revisit %v", r.header)
	}
	var got []string
	if err := a.Records(t.Context(), func(r Record) error { got = append(got, r.Type); return nil }); err != nil || len(got) != len(all) {
		t.Errorf("%d records, %v", len(got), err)
	}
	if _, err := a.Append(page(1, 1)); !errors.Is(err, ErrClosed) {
		t.Errorf("append after close: %v", err)
	}
}

func TestInvalid(t *testing.T) {
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
		"revisit digest":  func(x *Exchange) { x.Revisit = &Revisit{Profile: NotModified, Digest: "a\r\nb"} },
		"no digest":       func(x *Exchange) { x.Revisit = &Revisit{Profile: IdenticalPayload} },
		"nothing":         func(x *Exchange) { *x = Exchange{URL: x.URL} },
	} {
		x := page(1, 10)
		fn(&x)
		if _, err := a.Append(x); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, o := range []Options{{Prefix: "../x"}, {Level: 10}, {Quota: -1}, {Info: []Field{{"a b", "c"}}}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// TestConcurrent appends from several goroutines with rotation while others
// copy, index and sync.
func TestConcurrent(t *testing.T) {
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
				readPlain(t, whole(t, r))
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
		t.Errorf("index while open: %d lines, %v", bytes.Count(b.Bytes(), []byte("\n")), err)
	}
	stop()
	readers.Wait()
	closeNow(t, a)
	checkStrict(t, whole(t, other))
	checkIndexes(t, a)
	locs.Range(func(n, l any) bool {
		if c, err := other.ReadAt(l.(Location)); err != nil || c.URL != page(n.(int), 0).URL {
			t.Errorf("%v: %v", l, err)
		}
		return true
	})
	var onDisk int64
	for _, n := range names(t, dir) {
		if strings.HasSuffix(n, openSuffix) || strings.HasSuffix(n, tmpSuffix) {
			t.Errorf("%s is left", n)
		}
		onDisk += int64(len(readFile(t, dir, n)))
	}
	s := a.Stats()
	if s.Bytes != onDisk || s.Exchanges != 240 || 2*s.Files != len(names(t, dir)) || s.Records != int64(3*240+s.Files) {
		t.Errorf("%+v, %d bytes and %d files on disk", s, onDisk, len(names(t, dir)))
	}
}

// TestTinyFiles: a file that is full at once is begun for each exchange, also
// when several are appended at once.
func TestTinyFiles(t *testing.T) {
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
		t.Errorf("%+v", s)
	}
	checkStrict(t, whole(t, &a.Reader))
	checkIndexes(t, a)
}

// TestMissingIndex: an index that was deleted is made again, the same.
func TestMissingIndex(t *testing.T) {
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
		t.Errorf("index without file: %v\n%s", err, b.Bytes())
	}
	closeNow(t, open(t, dir, Options{}))
	if got := readFile(t, dir, indexName(loc.File)); !bytes.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSort sorts more lines than fit, over more runs than are merged at once.
func TestSort(t *testing.T) {
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
	if len(s.runs) <= sortFanIn {
		t.Fatalf("only %d runs", len(s.runs))
	}
	slices.Sort(want)
	var b bytes.Buffer
	if err := merge(t.Context(), &b, s.sources()); err != nil || b.String() != strings.Join(want, "") {
		t.Errorf("%v, %d bytes", err, b.Len())
	}
	bad := func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("no line feed")), nil }
	wantErr(t, merge(t.Context(), io.Discard, []source{bad}), ErrCorrupt)
}

// TestWget compares with what GNU wget writes of the same exchange.
func TestWget(t *testing.T) {
	wget, err := exec.LookPath("wget")
	if err != nil {
		t.Skip("no wget")
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Write(text(1, 5000))
	}))
	defer srv.Close()
	dir := t.TempDir()
	cmd := exec.Command(wget, "-q", "--no-warc-keep-log", "--warc-file=w", "--warc-cdx", "-O", "out", srv.URL+"/x?A=b")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	theirs := map[string]plain{}
	for _, p := range readPlain(t, readFile(t, dir, "w.warc.gz")) {
		if k := p.get("warc-type"); theirs[k].header == nil {
			theirs[k] = p
		}
	}
	head, body, _ := bytes.Cut(theirs["response"].block, []byte("\r\n\r\n"))
	x := page(1, 0)
	x.URL, x.Request, x.Response, x.Body = srv.URL+"/x?A=b", theirs["request"].block, append(head[:len(head):len(head)], "\r\n\r\n"...), body
	a := open(t, t.TempDir(), Options{})
	loc := appendOne(t, a, x)
	closeNow(t, a)
	ours := checkStrict(t, readFile(t, a.dir, loc.File))
	for _, p := range ours[:3] {
		w := theirs[p.get("warc-type")]
		for k, v := range w.header {
			switch k {
			case "warc-date", "warc-record-id", "warc-warcinfo-id", "warc-filename", "warc-ip-address", "warc-target-uri", "warc-concurrent-to":
				if len(p.header[k]) != len(v) && k != "warc-concurrent-to" { // wget's goes from response to request
					t.Errorf("%s: we write %d %s, wget %d", p.get("warc-type"), len(p.header[k]), k, len(v))
				}
			case "content-length", "warc-block-digest":
				if p.get("warc-type") != "warcinfo" && p.get(k) != v[0] {
					t.Errorf("%s is %s, wget's %s", k, p.get(k), v[0])
				}
			default:
				if p.get(k) != v[0] {
					t.Errorf("%s is %s, wget's %s", k, p.get(k), v[0])
				}
			}
		}
	}
	cdx := strings.Fields(strings.SplitAfter(string(readFile(t, dir, "w.cdx")), "\n")[1]) // a b a m s k r M V g u
	if l := readIndex(t, readFile(t, a.dir, indexName(loc.File)))[0]; l.URL != cdx[2] || l.Mime != cdx[3] || l.Status != cdx[4] || l.Digest != cdx[5] {
		t.Errorf("index %+v, wget's %v", l, cdx)
	}
	if err := os.WriteFile(filepath.Join(a.dir, "w.warc.gz"), readFile(t, dir, "w.warc.gz"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := open(t, a.dir, Options{}) // a foreign file is indexed and read
	if l := readIndex(t, readFile(t, a.dir, "w.cdxj"))[0]; l.URL != cdx[2] || l.Offset != cdx[8] {
		t.Errorf("index of wget's file %+v, wget's %v", l, cdx)
	}
	checkIndexesOf(t, b)
}

func checkIndexesOf(t *testing.T, a *Archive) {
	var b bytes.Buffer
	if err := a.Index(t.Context(), &b); err != nil || len(readIndex(t, b.Bytes())) != 2 {
		t.Errorf("%v\n%s", err, b.Bytes())
	}
}
