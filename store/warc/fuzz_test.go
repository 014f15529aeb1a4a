package warc

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/klauspost/compress/gzip"
)

func gz(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, 1)
	w.Write(b)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// FuzzScan reads arbitrary bytes as a file, and as the contents of a gzip member. It must
// not panic or end behind the data, and the part before the end must be valid.
func FuzzScan(f *testing.F) {
	f.Add([]byte("WARC/1.1\r\nWARC-Type: response\r\nWARC-Record-ID: <x:y>\r\n" +
		"WARC-Date: 2026-01-02T03:04:05Z\r\nWARC-Target-URI: http://a/\r\n" +
		"Content-Length: 19\r\n\r\nHTTP/1.1 200 OK\r\n\r\n\r\n\r\n"))
	f.Add([]byte("WARC/\n"))
	f.Add([]byte("WARC/1.0\r\n folded\r\n\r\n"))
	e := newEncoder()
	x := page(1, 200)
	e.prepare(&x)
	if err := e.encode(&x, ""); err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Clone(e.buf.Bytes()))
	f.Add(e.buf.Bytes()[:e.buf.Len()-5])
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, data := range [][]byte{b, gz(t, b), append(gz(t, b), b...)} {
			n := 0
			count := func(l []byte) error {
				n++
				if len(l) > maxLine || bytes.IndexByte(l, '\n') >= 0 {
					t.Fatalf("index line is %q, want one line of at most %d bytes", l, maxLine)
				}
				return nil
			}
			end, records, err := newScanner(bytes.NewReader(data), "x", 0).index(count)
			if err != nil && !errors.Is(err, ErrCorrupt) || end > int64(len(data)) || n > records {
				t.Fatalf("index() = %d, %d, %v, with %d lines, of %d bytes", end, records, err, n,
					len(data))
			}
			ignore := func([]byte) error { return nil }
			end2, records2, err := newScanner(bytes.NewReader(data[:end]), "x", 0).index(ignore)
			if end2 != end || records2 != records || err != nil {
				t.Fatalf("index() of the valid part = %d, %d, %v, want %d, %d, nil", end2,
					records2, err, end, records)
			}
		}
	})
}

// FuzzLog reads arbitrary bytes as an index log.
func FuzzLog(f *testing.F) {
	f.Add(appendCheckpoint([]byte("+10\n+20 x 2026 {}\n"), 20, 0))
	f.Add([]byte("!\n+\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var at int64
		err := readLog(bytes.NewReader(b), func(e event) error { at = e.at; return nil })
		if err != nil || at > int64(len(b)) {
			t.Fatalf("readLog() = %v, an event at %d of %d bytes", err, at, len(b))
		}
	})
}

// FuzzRepair opens an archive with an arbitrary file and log.
func FuzzRepair(f *testing.F) {
	f.Add([]byte("x"), []byte("+1\n"))
	f.Fuzz(func(t *testing.T, warc, log []byte) {
		dir := t.TempDir()
		const name = "p-20260102030405-00001.warc.gz"
		write(t, dir, openName(name), warc)
		write(t, dir, logName(name), log)
		a, err := Open(dir, Options{Logger: silent, MinFree: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Extract(t.Context(), io.Discard, nil, map[string]int64{}, nil); err != nil &&
			!errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err := a.Index(t.Context(), io.Discard); err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err := errors.Join(a.Close(), os.RemoveAll(dir)); err != nil {
			t.Fatal(err)
		}
	})
}
