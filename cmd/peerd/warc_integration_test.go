//go:build integration

package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha1"
	"encoding/base32"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A record is one of a WARC file. The reader below shares no code with peerd.
type record struct {
	header map[string]string // names in lower case
	block  []byte
	at, n  int // of its gzip member
}

func (r record) url() string { return r.header["warc-target-uri"] }

// http parses the response in the block.
func (r record) http() (status string, body []byte) {
	head, body, _ := bytes.Cut(r.block, []byte("\r\n\r\n"))
	if f := strings.Fields(string(head)); len(f) > 1 {
		status = f[1]
	}
	return status, body
}

// readWARC reads gzip members of one record each, and fails the test for every fault.
func readWARC(t *testing.T, data []byte) (all []record) {
	t.Helper()
	in := bytes.NewReader(data)
	for in.Len() > 0 {
		at := len(data) - in.Len()
		zip, err := gzip.NewReader(in)
		if err != nil {
			t.Fatalf("member at %d: %v", at, err)
		}
		zip.Multistream(false)
		text, err := io.ReadAll(zip)
		if err != nil {
			t.Fatalf("member at %d: %v", at, err)
		}
		head, rest, _ := strings.Cut(string(text), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		r := record{header: map[string]string{}, at: at, n: len(data) - in.Len() - at}
		for _, l := range lines[1:] {
			name, value, _ := strings.Cut(l, ": ")
			r.header[strings.ToLower(name)] = value
		}
		n, err := strconv.Atoi(r.header["content-length"])
		if err != nil || lines[0] != "WARC/1.1" || len(rest) != n+4 || rest[n:] != "\r\n\r\n" {
			t.Fatalf("member at %d: %q, length %q of %d, %v", at, lines[0],
				r.header["content-length"], len(rest)-4, err)
		}
		r.block = []byte(rest[:n])
		if sum := sha1.Sum(r.block); r.header["warc-block-digest"] != "sha1:"+
			base32.StdEncoding.EncodeToString(sum[:]) {
			t.Fatalf("member at %d: block digest %s", at, r.header["warc-block-digest"])
		}
		all = append(all, r)
	}
	return all
}

// checkWARC checks that IDs are unique and refer to earlier records of the same file.
func checkWARC(t *testing.T, all []record) {
	t.Helper()
	seen := map[string]bool{}
	for i, r := range all {
		id := r.header["warc-record-id"]
		if seen[id] || id == "" {
			t.Errorf("record %d: duplicate ID %q", i, id)
		}
		seen[id] = true
		for _, name := range []string{"warc-concurrent-to", "warc-warcinfo-id"} {
			if to := r.header[name]; to != "" && !seen[to] {
				t.Errorf("record %d: %s %q is not an earlier record", i, name, to)
			}
		}
	}
	if len(all) == 0 || all[0].header["warc-type"] != "warcinfo" {
		t.Error("the file does not start with a warcinfo record")
	}
}

// archiveFiles returns the content of all archive files of a home, by name.
func archiveFiles(t *testing.T, home string) map[string][]byte {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(home, "archive", "*.warc.gz*"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		files[strings.TrimSuffix(filepath.Base(path), ".open")] = data
	}
	return files
}

// A capture is a line of an index.
type capture struct{ URL, Status, Digest, Length, Offset, Filename string }

// readCDX reads an index, which must be sorted.
func readCDX(t *testing.T, text string) (all []capture) {
	t.Helper()
	lines := slices.Collect(strings.Lines(text))
	if !slices.IsSorted(lines) {
		t.Error("the index is not sorted")
	}
	for _, l := range lines {
		var c capture
		f := strings.SplitN(l, " ", 3)
		if len(f) != 3 || len(f[1]) != 14 || json.Unmarshal([]byte(f[2]), &c) != nil ||
			!strings.HasSuffix(l, "\n") {
			t.Fatalf("index line %q", l)
		}
		all = append(all, c)
	}
	return all
}

// checkCDX checks that each line refers to its record, and that the records of all responses
// have a line.
func checkCDX(t *testing.T, all []capture, files map[string][]byte) {
	t.Helper()
	for _, c := range all {
		at, err := strconv.Atoi(c.Offset)
		n, err2 := strconv.Atoi(c.Length)
		if data := files[c.Filename]; err != nil || err2 != nil || at < 0 || n <= 0 ||
			at+n > len(data) {
			t.Errorf("%+v refers to no file", c)
			continue
		}
		rs := readWARC(t, files[c.Filename][at:at+n])
		if len(rs) != 1 || rs[0].url() != c.URL {
			t.Errorf("%+v refers to %d records", c, len(rs))
			continue
		}
		status, body := rs[0].http()
		sum := sha1.Sum(body)
		if rs[0].header["warc-type"] == "response" &&
			(status != c.Status || base32.StdEncoding.EncodeToString(sum[:]) != c.Digest) {
			t.Errorf("%+v refers to status %s", c, status)
		}
	}
}

// readTexts parses the output of export text, by URL.
func readTexts(t *testing.T, out string) map[string]struct{ Title, Charset, Text string } {
	t.Helper()
	all := map[string]struct{ Title, Charset, Text string }{}
	for line := range strings.Lines(out) {
		var v struct{ URL, Title, Charset, Text string }
		if err := json.Unmarshal([]byte(line), &v); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all[v.URL] = struct{ Title, Charset, Text string }{v.Title, v.Charset, v.Text}
	}
	return all
}
