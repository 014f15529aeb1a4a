package warc

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MaxCapture is the most that ReadAt reads, in bytes of head and body.
const MaxCapture = 256 << 20

// Reader reads an archive, also one that another process is writing. It has
// no state: any number of calls at once are fine.
type Reader struct {
	dir     string
	archive *Archive // nil: of another process, or of none
}

// OpenReader returns a reader of the archive in dir. It takes no lock and
// changes nothing. Of a file that is being written it sees the exchanges that
// are whole. After a crash of the machine, let Open repair the archive first.
func OpenReader(dir string) (*Reader, error) {
	if _, _, err := list(dir); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	return &Reader{dir: dir}, nil
}

// extent is how much of a file can be read.
type extent struct {
	open   bool
	end    int64 // of the WARC, in whole exchanges
	logEnd int64 // of the log, if open
	logBad bool  // the log does not have everything
}

// extent says how much there is of a file now.
func (r *Reader) extent(name string) (extent, error) {
	if a := r.archive; a != nil {
		a.mu.Lock()
		x, ok := a.live[name]
		a.mu.Unlock()
		if ok {
			return x, nil
		}
	}
	for range 2 {
		info, err := os.Stat(filepath.Join(r.dir, name))
		if err == nil {
			return extent{end: info.Size()}, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			return extent{}, err
		}
		info, err = os.Stat(filepath.Join(r.dir, openName(name)))
		if err == nil {
			return r.openExtent(name, info.Size())
		}
		if !errors.Is(err, os.ErrNotExist) {
			return extent{}, err
		}
	}
	return extent{}, fmt.Errorf("warc: %s: %w", name, os.ErrNotExist)
}

// openExtent finds the end of the last whole exchange of a file that another
// process writes, or wrote: its log knows, else its records tell.
func (r *Reader) openExtent(name string, size int64) (extent, error) {
	x := extent{open: true}
	err := withLog(r.dir, name, -1, func(br *bufio.Reader) error {
		return readLog(br, func(e event) error {
			if e.end <= size && !e.checkpoint {
				x.end, x.logEnd = e.end, e.at
			}
			return nil
		})
	})
	if err == nil && x.end > 0 {
		return x, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return x, err
	}
	x.logBad = true
	x.end, _, err = scanFile(r.dir, name, 0, size, func([]byte) error { return nil })
	if errors.Is(err, ErrCorrupt) {
		err = nil
	}
	return x, err
}

// files calls fn for each file of the archive, in order of their names.
func (r *Reader) files(ctx context.Context, fn func(name string, x extent) error) error {
	names, _, err := list(r.dir)
	if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	for _, name := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		x, err := r.extent(name)
		if err == nil && x.end > 0 {
			err = fn(name, x)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Copy writes all records, file after file; the outcome is one valid WARC
// file. Of files that are being written it has what was whole when Copy came
// to them.
func (r *Reader) Copy(ctx context.Context, w io.Writer) error {
	return r.files(ctx, func(name string, x extent) error {
		f, err := openWARC(r.dir, name)
		if err != nil {
			return err
		}
		defer f.Close()
		for at := int64(0); at < x.end; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n, err := io.CopyN(w, f, min(4<<20, x.end-at))
			if at += n; err != nil {
				return fmt.Errorf("warc: copying %s: %w", name, err)
			}
		}
		return nil
	})
}

// Records calls fn for each record of the archive. The record and its Block
// are fn's until it returns; what it does not read is skipped. An error of fn
// ends it. Damage ends the file where it is, then the error is ErrCorrupt.
func (r *Reader) Records(ctx context.Context, fn func(Record) error) error {
	return r.files(ctx, func(name string, x extent) error {
		f, err := openWARC(r.dir, name)
		if err != nil {
			return err
		}
		defer f.Close()
		s := newScanner(io.LimitReader(f, x.end), name, 0)
		for {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			rec, err := s.next()
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := fn(*rec); err != nil {
				return err
			}
		}
	})
}

// Index writes the index of the whole archive, sorted by bytes (as LC_ALL=C
// sort does). Memory is bounded; a big index goes through a temporary file.
func (r *Reader) Index(ctx context.Context, w io.Writer) error {
	s := newSorter() // of files without a sorted index
	defer s.close()
	var all []source
	err := r.files(ctx, func(name string, x extent) error {
		if x.open && !x.logBad {
			err := withLog(r.dir, name, x.logEnd, func(br *bufio.Reader) error {
				_, err := addLog(s, br, x.end)
				return err
			})
			if !errors.Is(err, os.ErrNotExist) {
				return err
			} // else it was finished meanwhile
		}
		path := filepath.Join(r.dir, indexName(name))
		if _, err := os.Stat(path); err == nil && !(x.open && x.logBad) {
			all = append(all, func() (io.ReadCloser, error) { return os.Open(path) })
			return nil
		}
		_, _, err := scanFile(r.dir, name, 0, x.end, s.add)
		if errors.Is(err, ErrCorrupt) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	bw := bufio.NewWriterSize(w, 64<<10)
	if err := merge(ctx, bw, append(all, s.sources()...)); err != nil {
		return err
	}
	return bw.Flush()
}

// Capture is a response that was read back.
type Capture struct {
	URL       string
	Time      time.Time
	Type      string  // response or revisit
	Truncated string  // why Body ends early
	Fields    []Field // of the WARC record
	Head      []byte  // "HTTP/1.1 200 OK\r\n...\r\n\r\n"
	Body      []byte  // content coding as it came; nil of a revisit
}

// ReadAt reads one response or revisit back; its payload digest must be the
// one of loc, if that has one. Errors: ErrCorrupt, os.ErrNotExist.
func (r *Reader) ReadAt(loc Location) (*Capture, error) {
	if loc.Offset < 0 || loc.Length <= 0 || loc.File != filepath.Base(loc.File) || !strings.HasSuffix(loc.File, warcSuffix) {
		return nil, corrupt("no such location: %+v", loc)
	}
	f, err := openWARC(r.dir, loc.File)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := newScanner(io.NewSectionReader(f, loc.Offset, loc.Length), loc.File, loc.Offset)
	rec, err := s.next()
	if err == io.EOF {
		err = corrupt("%s ends before %d", loc.File, loc.Offset)
	}
	if err != nil {
		return nil, err
	}
	if rec.Type != "response" && rec.Type != "revisit" || rec.Length > MaxCapture {
		return nil, corrupt("%s at %d: %s of %d bytes", loc.File, loc.Offset, rec.Type, rec.Length)
	}
	c := &Capture{URL: rec.URL, Time: rec.Time, Type: rec.Type, Truncated: rec.Get("WARC-Truncated"), Fields: rec.Fields}
	var body bytes.Buffer
	head, rest := readHead(rec.Block)
	if _, err := body.ReadFrom(rest); err != nil {
		return nil, s.damage(err)
	}
	if err := s.finish(); err != nil {
		return nil, err
	}
	if rec.Location.Length != loc.Length || loc.Digest != "" && loc.Digest != rec.Location.Digest {
		return nil, corrupt("%s at %d: another record", loc.File, loc.Offset)
	}
	c.Head = head
	if rec.Type == "response" {
		c.Body = body.Bytes()
		if d := rec.Location.Digest; strings.HasPrefix(d, "sha1:") && d != digest(sha1.Sum(c.Body)).String() {
			return nil, corrupt("%s at %d: payload digest", loc.File, loc.Offset)
		}
	}
	return c, nil
}
