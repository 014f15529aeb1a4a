package warc

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nlnwa/gowarc"
)

// plain is a record as readPlain reads it, without code of this package.
type plain struct {
	at, length int // of the member
	header     map[string][]string
	block      []byte
}

func (p plain) get(name string) string {
	if v := p.header[strings.ToLower(name)]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// readPlain reads a WARC file and fails the test if it is not valid.
func readPlain(t testing.TB, data []byte) (all []plain) {
	t.Helper()
	br := bytes.NewReader(data)
	for br.Len() > 0 {
		at := len(data) - br.Len()
		gz, err := gzip.NewReader(br)
		if err != nil {
			t.Fatalf("member at %d: %v", at, err)
		}
		gz.Multistream(false)
		raw, err := io.ReadAll(gz)
		if err != nil {
			t.Fatalf("member at %d: %v", at, err)
		}
		head, rest, ok := bytes.Cut(raw, []byte("\r\n\r\n"))
		lines := strings.Split(string(head), "\r\n")
		if !ok || lines[0] != "WARC/1.1" && lines[0] != "WARC/1.0" {
			t.Fatalf("member at %d begins with %q", at, lines[0])
		}
		p := plain{at: at, length: len(data) - br.Len() - at, header: map[string][]string{}}
		for _, l := range lines[1:] {
			k, v, ok := strings.Cut(l, ": ")
			if !ok || strings.ContainsAny(l, "\r\n") {
				t.Fatalf("member at %d: header line %q", at, l)
			}
			k = strings.ToLower(k)
			p.header[k] = append(p.header[k], v)
		}
		n, err := strconv.Atoi(p.get("content-length"))
		if err != nil || len(rest) != n+4 || string(rest[n:]) != "\r\n\r\n" {
			t.Fatalf("member at %d: length %q, %d bytes, %v", at, p.get("content-length"),
				len(rest), err)
		}
		p.block = rest[:n]
		if got := sha(p.block); got != p.get("warc-block-digest") {
			t.Fatalf("member at %d: block digest %s, want %s", at, p.get("warc-block-digest"), got)
		}
		if p.get("warc-type") == "response" {
			_, body, _ := bytes.Cut(p.block, []byte("\r\n\r\n"))
			if got := sha(body); got != p.get("warc-payload-digest") {
				t.Fatalf("member at %d: payload digest %s, want %s", at,
					p.get("warc-payload-digest"), got)
			}
		}
		all = append(all, p)
	}
	return all
}

func sha(b []byte) string {
	s := sha1.Sum(b)
	return "sha1:" + base32.StdEncoding.EncodeToString(s[:])
}

func memberEnds(t testing.TB, data []byte) (ends []int) {
	for _, p := range readPlain(t, data) {
		ends = append(ends, p.at+p.length)
	}
	return ends
}

var library sync.Mutex // guards gowarc.NewUnmarshaler

// checkStrict reads a WARC file with readPlain, and with gowarc with all of its checks,
// and checks the references between records.
func checkStrict(t testing.TB, data []byte) []plain {
	t.Helper()
	all := readPlain(t, data)
	ids := map[string]string{}
	for i, p := range all {
		id := p.get("warc-record-id")
		if ids[id] != "" || !strings.HasPrefix(id, "<urn:uuid:") {
			t.Fatalf("record %d has ID %q, want a unique UUID", i, id)
		}
		ids[id] = p.get("warc-type")
		if i == 0 && ids[id] != "warcinfo" {
			t.Fatalf("first record is %s, want warcinfo", ids[id])
		}
		for _, to := range append(p.header["warc-concurrent-to"], p.header["warc-warcinfo-id"]...) {
			if ids[to] == "" {
				t.Fatalf("record %d refers to %s, want an earlier record", i, to)
			}
		}
	}
	br := bufio.NewReader(bytes.NewReader(data))
	library.Lock() // NewUnmarshaler sets a global variable
	u := gowarc.NewUnmarshaler(gowarc.WithSyntaxErrorPolicy(gowarc.ErrFail),
		gowarc.WithSpecViolationPolicy(gowarc.ErrFail),
		gowarc.WithUnknownRecordTypePolicy(gowarc.ErrFail),
		gowarc.WithBlockErrorPolicy(gowarc.ErrFail))
	library.Unlock()
	n := 0
	for ; ; n++ {
		rec, skipped, v, err := u.Unmarshal(br)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil || skipped != 0 || !v.Valid() {
			t.Fatalf("gowarc, record %d: %v, %d bytes skipped, %v", n, err, skipped, v)
		}
		if rec.RecordId() != strings.Trim(all[n].get("warc-record-id"), "<>") {
			t.Fatalf("gowarc, record %d: ID %s, want %s", n, rec.RecordId(),
				all[n].get("warc-record-id"))
		}
		if err := rec.Close(); err != nil {
			t.Fatalf("gowarc, record %d: %v", n, err)
		}
	}
	if n != len(all) {
		t.Fatalf("gowarc read %d records, want %d", n, len(all))
	}
	return all
}

// cdxj is an index line, parsed without code of this package.
type cdxj struct {
	Key, Time                                           string
	URL, Mime, Status, Digest, Length, Offset, Filename string
}

func readIndex(t testing.TB, b []byte) (all []cdxj) {
	t.Helper()
	lines := strings.SplitAfter(string(b), "\n")
	if lines[len(lines)-1] != "" || !slices.IsSorted(lines[:len(lines)-1]) {
		t.Fatalf("index is incomplete or not sorted:\n%s", b)
	}
	for _, l := range lines[:len(lines)-1] {
		var c cdxj
		f := strings.SplitN(l, " ", 3)
		if len(f) != 3 || len(f[1]) != 14 || json.Unmarshal([]byte(f[2]), &c) != nil {
			t.Fatalf("index line is %q, want key, time and JSON", l)
		}
		c.Key, c.Time = f[0], f[1]
		all = append(all, c)
	}
	return all
}

// checkIndexes compares the index of each finished file, and that of the archive, with
// the records that readPlain finds.
func checkIndexes(t testing.TB, a *Archive) {
	t.Helper()
	total := 0
	files, _ := filepath.Glob(filepath.Join(a.dir, "*"+warcSuffix))
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]plain{}
		for _, p := range readPlain(t, data) {
			if typ := p.get("warc-type"); typ == "response" || typ == "revisit" {
				at[strconv.Itoa(p.at)] = p
			}
		}
		lines := readIndex(t, readFile(t, a.dir, indexName(filepath.Base(path))))
		if len(lines) != len(at) {
			t.Fatalf("%s: index has %d lines, want %d", path, len(lines), len(at))
		}
		total += len(lines)
		for _, l := range lines {
			p, ok := at[l.Offset]
			date := strings.NewReplacer("-", "", "T", "", ":", "").Replace(p.get("warc-date"))
			if !ok || l.Length != strconv.Itoa(p.length) || l.URL != p.get("warc-target-uri") ||
				l.Time != date[:14] ||
				l.Filename != filepath.Base(path) ||
				"sha1:"+l.Digest != p.get("warc-payload-digest") && l.Digest != "-" {
				t.Fatalf("%s: line %+v, record %+v", path, l, p.header)
			}
		}
	}
	if len(a.live) == 0 {
		var b bytes.Buffer
		if err := a.Index(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if got := readIndex(t, b.Bytes()); len(got) != total {
			t.Fatalf("index of the archive has %d lines, want %d", len(got), total)
		}
	}
}
