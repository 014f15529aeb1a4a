package warc

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

// mixed writes exchanges of two hosts into several files, of which the last is open.
func mixed(t *testing.T) *Archive {
	t.Helper()
	a := open(t, t.TempDir(), Options{MaxFile: 3000})
	for i := range 20 {
		x := page(i, 300)
		x.URL = fmt.Sprintf("http://%c.example/%d", 'a'+i%2, i)
		x.Time = time.Date(2026, 1, 2, 3, 4, i, 0, time.UTC)
		x.Response = []byte("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n")
		appendOne(t, a, x)
	}
	if n := a.Stats().Files; n < 3 {
		t.Fatalf("%d files, want several", n)
	}
	return a
}

func ofB(url string, at time.Time) bool {
	return strings.Contains(url, "//b.") && at.Second() >= 10
}

// TestExtract copies a part, in one go and with an interruption after each record.
func TestExtract(t *testing.T) {
	t.Parallel()
	a := mixed(t)
	var whole bytes.Buffer
	if err := a.Extract(t.Context(), &whole, ofB, map[string]int64{}, nil); err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, p := range checkStrict(t, whole.Bytes()) {
		kinds[p.get("warc-type")]++
		if u := p.get("warc-target-uri"); u != "" && !strings.HasPrefix(u, "http://b.") {
			t.Errorf("record of %s, want those of b.example", u)
		}
	}
	files := a.Stats().Files
	want := map[string]int{"warcinfo": files, "response": 5, "request": 5, "metadata": 5}
	if !maps.Equal(kinds, want) {
		t.Errorf("records = %v, want %v", kinds, want)
	}
	stop := errors.New("stop")
	var parts bytes.Buffer
	at, calls := map[string]int64{}, 0
	for {
		err := a.Extract(t.Context(), &parts, ofB, at, func() error { return stop })
		if err == nil {
			break
		}
		if calls++; !errors.Is(err, stop) || calls > 100 {
			t.Fatalf("Extract() = %v after %d calls", err, calls)
		}
	}
	if calls != files+15 || !bytes.Equal(parts.Bytes(), whole.Bytes()) {
		t.Errorf("%d bytes in %d parts, want %d in %d", parts.Len(), calls, whole.Len(), files+15)
	}
	var lines bytes.Buffer
	if err := a.IndexOf(t.Context(), &lines, ofB); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(lines.String(), "com,example"); n != 0 ||
		strings.Count(lines.String(), "\nexample,b)/")+1 != 5 {
		t.Errorf("the index of a part is\n%s", &lines)
	}
}

// A damaged record costs itself and what belongs to it, and no others, whatever damages it.
func TestExtractDamaged(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(record []byte){
		"header":   func(b []byte) { clear(b[:10]) },
		"contents": func(b []byte) { clear(b[len(b)/2 : len(b)/2+20]) },
		"checksum": func(b []byte) { b[len(b)-8] ^= 1 },
	} {
		a := mixed(t)
		closeNow(t, a)
		var places []Location
		err := a.Entries(t.Context(), SpanOf("http://a.example/", MatchHost), func(e Entry) error {
			places = append(places, e.Location)
			return nil
		})
		if err != nil || len(places) != 10 {
			t.Fatalf("%d captures, %v", len(places), err)
		}
		slices.SortFunc(places, func(a, b Location) int {
			return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
		})
		for _, l := range []Location{places[2], places[9]} {
			data := readFile(t, a.dir, l.File)
			harm(data[l.Offset:][:l.Length])
			write(t, a.dir, l.File, data)
		}
		var got, parts, packed bytes.Buffer
		err = a.Extract(t.Context(), &got, nil, map[string]int64{}, nil)
		wantErr(t, err, ErrCorrupt)
		if !strings.Contains(err.Error(), places[2].File) ||
			!strings.Contains(err.Error(), fmt.Sprint("at ", places[2].Offset)) ||
			!strings.Contains(err.Error(), "and 1 more") {
			t.Errorf("%s: Extract() = %v, want the first of two places", name, err)
		}
		kinds := map[string]int{}
		for _, p := range checkStrict(t, got.Bytes()) {
			kinds[p.get("warc-type")]++
		}
		want := map[string]int{"warcinfo": a.Stats().Files, "response": 18, "request": 18,
			"metadata": 18}
		if !maps.Equal(kinds, want) {
			t.Errorf("%s: records = %v, want %v", name, kinds, want)
		}

		// With a callback, an interruption at each record tells of each damaged record once.
		r, err := OpenReader(a.dir)
		if err != nil {
			t.Fatal(err)
		}
		var told []error
		r.Damaged = func(err error) { told = append(told, err) }
		stop, at := errors.New("stop"), map[string]int64{}
		for err = stop; errors.Is(err, stop); {
			err = r.Extract(t.Context(), &parts, nil, at, func() error { return stop })
		}
		if err != nil || len(told) != 2 || !bytes.Equal(parts.Bytes(), got.Bytes()) {
			t.Errorf("%s: Extract() in parts = %d bytes, %v, told of %q", name, parts.Len(), err,
				told)
		}
		wantErr(t, a.WACZ(t.Context(), &packed, nil, "peerd/test"), ErrCorrupt)
		z, err := zip.NewReader(bytes.NewReader(packed.Bytes()), int64(packed.Len()))
		if err != nil || len(z.File) != 5 {
			t.Errorf("%s: WACZ() wrote %d bytes, no whole file: %v", name, packed.Len(), err)
		}
		n := 0
		err = a.FollowExchanges(t.Context(), map[string]int64{}, Selection{}, func(Exchange) error {
			n++
			return nil
		})
		if wantErr(t, err, ErrCorrupt); n != 18 {
			t.Errorf("%s: FollowExchanges() = %d exchanges, want 18", name, n)
		}
	}
}

// TestWACZ reads a WACZ file as its specification says.
func TestWACZ(t *testing.T) {
	t.Parallel()
	a := mixed(t)
	for name, want := range map[string]Want{"all": nil, "part": ofB} {
		var out bytes.Buffer
		if err := a.WACZ(t.Context(), &out, want, "peerd/test"); err != nil {
			t.Fatal(err)
		}
		z, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		if err != nil {
			t.Fatal(err)
		}
		files := map[string][]byte{}
		for _, f := range z.File {
			r, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			if files[f.Name], err = io.ReadAll(r); err != nil { // checks the CRC
				t.Fatal(err)
			}
			if stored := f.Method == zip.Store; stored != strings.HasPrefix(f.Name, "archive/") {
				t.Errorf("%s: stored %v", f.Name, stored)
			}
		}
		var pack struct {
			Profile string
			Version string     `json:"wacz_version"`
			Files   []waczFile `json:"resources"`
		}
		if err := json.Unmarshal(files["datapackage.json"], &pack); err != nil {
			t.Fatal(err)
		}
		sum := func(b []byte) string {
			s := sha256.Sum256(b)
			return "sha256:" + hex.EncodeToString(s[:])
		}
		if pack.Profile != "data-package" || pack.Version != "1.1.1" || len(pack.Files) != 3 {
			t.Errorf("%s: datapackage.json is %+v", name, pack)
		}
		for _, f := range pack.Files {
			b := files[f.Path]
			if f.Hash != sum(b) || f.Bytes != int64(len(b)) {
				t.Errorf("%s: %+v, want %d bytes, %s", name, f, len(b), sum(b))
			}
		}
		if !bytes.Contains(files["datapackage-digest.json"],
			[]byte(sum(files["datapackage.json"]))) {
			t.Errorf("%s: %s", name, files["datapackage-digest.json"])
		}
		captures, pages := 20, strings.Count(string(files["pages/pages.jsonl"]), "\n")-1
		if want != nil {
			captures = 5
		}
		if pages != captures {
			t.Errorf("%s: %d pages, want %d", name, pages, captures)
		}
		checkPlaces(t, files["archive/data.warc.gz"], files["indexes/index.cdx"], captures)
	}
}

// checkPlaces checks that the lines of an index name the places of their captures.
func checkPlaces(t *testing.T, data, index []byte, captures int) {
	t.Helper()
	checkStrict(t, data)
	n := 0
	for line := range strings.Lines(string(index)) {
		e, ok := parseEntry([]byte(strings.TrimSuffix(line, "\n")))
		if !ok {
			t.Fatalf("invalid line %q", line)
		}
		n++
		s := newScanner(bytes.NewReader(data[e.Location.Offset:][:e.Location.Length]), "x", 0)
		rec, err := s.next()
		if err != nil || rec.URL != e.URL || e.Location.File != "data.warc.gz" {
			t.Fatalf("%q leads to %+v, %v", line, rec, err)
		}
	}
	if n != captures {
		t.Errorf("%d lines, want %d", n, captures)
	}
}
