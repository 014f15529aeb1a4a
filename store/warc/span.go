package warc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Entry is what the index says of one capture.
type Entry struct {
	Key      string // SURT of the URL
	URL      string
	Time     time.Time // in seconds
	MIME     string    // "warc/revisit" of a revisit, "unk" if unknown
	Status   string    // "-" of a revisit
	Digest   string    // of the payload, without "sha1:"; "-" if there is none
	Location Location  // its Digest is empty
}

// Match says which URLs belong to a Span.
type Match int

// The values of Match. Their meanings are those of matchType in pywb.
const (
	MatchExact  Match = iota // the same key
	MatchPrefix              // keys that begin with this one
	MatchHost                // all URLs of the host and port
	MatchDomain              // all URLs of the host and of hosts below it
)

// Span is a range of index lines: those from From on and before To, in the order of bytes.
type Span struct{ From, To string }

// SpanOf returns the range of the URLs that match url.
func SpanOf(url string, m Match) Span {
	key := SURT(url)
	host, _, _ := strings.Cut(key, ")")
	switch m {
	case MatchPrefix:
		if strings.HasSuffix(url, "/") && !strings.HasSuffix(key, "/") {
			key += "/"
		}
		return Span{key, key + "\xff"}
	case MatchHost:
		return Span{host + ")", host + "*"}
	case MatchDomain:
		return Span{host + ")", host + "-"} // "-" follows "," and ")"
	}
	return Span{key + " ", key + "!"}
}

// Entries calls fn for each entry of the index in a range, in the order of keys and times. Of a
// finished file it reads the lines in the range, found by bisection, and of a file that is being
// written the whole index log. An error of fn ends it and is returned. Lines that are not valid are
// left out. It needs at most 8 MiB of memory, some KiB for each file, and a temporary file if the
// log has more lines in the range.
func (r *Reader) Entries(ctx context.Context, span Span, fn func(Entry) error) error {
	return r.lines(ctx, span, &entryWriter{fn: func(e Entry, _ []byte) error { return fn(e) }})
}

// lines writes the lines of the index in a range, in order.
func (r *Reader) lines(ctx context.Context, span Span, w io.Writer) error {
	s := newSorter() // of files without a sorted index
	defer s.close()
	add := func(line []byte) error {
		if string(line) < span.From || string(line) >= span.To {
			return nil
		}
		return s.add(line)
	}
	var all []source
	err := r.files(ctx, func(name string, x extent) error {
		if x.open && !x.logFailed {
			err := readLogFile(r.dir, name, x.logEnd, linesUpTo(x.end, add))
			if !errors.Is(err, os.ErrNotExist) {
				return err
			} // otherwise it was finished meanwhile
		}
		if !x.open || !x.logFailed {
			part, err := r.section(name, span)
			if part != nil {
				all = append(all, part)
			}
			if !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		_, _, err := scanFile(r.dir, name, x.end, add)
		if errors.Is(err, ErrCorrupt) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return merge(ctx, w, append(all, s.sources()...))
}

// section returns the part of a sorted index that is in a range; nil: there is none.
func (r *Reader) section(name string, span Span) (source, error) {
	path := filepath.Join(r.dir, indexName(name))
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from, err := firstLine(f, info.Size(), span.From)
	if err != nil {
		return nil, err
	}
	to, err := firstLine(f, info.Size(), span.To)
	if err != nil || from >= to {
		return nil, err
	}
	return func() io.Reader { return &pathReader{path: path, at: from, end: to} }, nil
}

// pathReader reads a part of a file that never changes. It keeps it open only meanwhile, because
// an archive may have more files than a process may open.
type pathReader struct {
	path    string
	at, end int64
}

func (r *pathReader) Read(p []byte) (int, error) {
	if r.at >= r.end {
		return 0, io.EOF
	}
	f, err := os.Open(r.path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err := f.ReadAt(p[:min(int64(len(p)), r.end-r.at)], r.at)
	r.at += int64(n)
	if n > 0 {
		err = nil
	}
	return n, err
}

// firstLine returns the offset of the first line of a sorted file that is not less than key.
func firstLine(f io.ReaderAt, size int64, key string) (int64, error) {
	var failed error
	at := sort.Search(int(size), func(at int) bool {
		_, line, err := lineAt(f, size, int64(at))
		if err != nil && !errors.Is(err, io.EOF) {
			failed = err
			return true
		}
		return err != nil || string(line) >= key
	})
	if failed != nil {
		return 0, failed
	}
	start, _, err := lineAt(f, size, int64(at))
	if errors.Is(err, io.EOF) {
		return size, nil
	}
	return start, err
}

// lineAt returns the first line that starts at an offset or after it. The error is io.EOF if there
// is none. A line that is too long is cut.
func lineAt(f io.ReaderAt, size, at int64) (start int64, line []byte, err error) {
	from := max(0, at-1)
	br := bufio.NewReaderSize(io.NewSectionReader(f, from, size-from), 4<<10)
	if start = from; at > 0 {
		for {
			part, err := br.ReadSlice('\n')
			start += int64(len(part))
			if err == nil {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return size, nil, err
			}
		}
	}
	line, err = br.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) || errors.Is(err, io.EOF) && len(line) > 0 {
		err = nil
	}
	return start, bytes.TrimSuffix(line, []byte("\n")), err
}

// entryWriter calls fn for each line that is written to it and valid.
type entryWriter struct {
	fn   func(e Entry, line []byte) error
	rest []byte
}

func (w *entryWriter) Write(b []byte) (int, error) {
	w.rest = append(w.rest, b...)
	for {
		line, rest, ok := bytes.Cut(w.rest, []byte("\n"))
		if !ok {
			w.rest = append(w.rest[:0:0], w.rest...)
			return len(b), nil
		}
		if e, ok := parseEntry(line); ok {
			if err := w.fn(e, line); err != nil {
				return 0, err
			}
		}
		w.rest = rest
	}
}

func parseEntry(line []byte) (e Entry, ok bool) {
	key, rest, _ := bytes.Cut(line, []byte(" "))
	stamp, object, _ := bytes.Cut(rest, []byte(" "))
	var x struct{ URL, Mime, Status, Digest, Length, Offset, Filename string }
	if json.Unmarshal(object, &x) != nil {
		return e, false
	}
	at, err := time.Parse("20060102150405", string(stamp))
	offset, err2 := strconv.ParseInt(x.Offset, 10, 64)
	length, err3 := strconv.ParseInt(x.Length, 10, 64)
	if errors.Join(err, err2, err3) != nil {
		return e, false
	}
	return Entry{Key: string(key), URL: x.URL, Time: at, MIME: x.Mime, Status: x.Status,
		Digest:   x.Digest,
		Location: Location{File: x.Filename, Offset: offset, Length: length}}, true
}
