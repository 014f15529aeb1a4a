package warc

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// MaxCapture is the maximum size in bytes of header and body that ReadAt reads.
const MaxCapture = 256 << 20

// Reader reads an archive, even while another process writes it. It has no state; its
// methods are safe for concurrent use.
type Reader struct {
	// Damaged, if set, is called with the error of each damaged record that Extract, WACZ and
	// Follow leave out. They do not return these errors then.
	Damaged func(error)

	dir     string
	archive *Archive // nil if this process does not write the archive
}

// OpenReader returns a reader of the archive in dir. It takes no lock and changes
// nothing. In a file that is being written it sees the complete exchanges. After a power
// failure, call Open first to repair the archive.
func OpenReader(dir string) (*Reader, error) {
	if _, _, err := list(dir); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	return &Reader{dir: dir}, nil
}

// extent is the readable part of a file.
type extent struct {
	open      bool
	end       int64 // of the complete exchanges in the WARC
	logEnd    int64 // of the log, if open
	logFailed bool  // the log is incomplete
}

// extent returns the readable part of a file at present.
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

// openExtent finds the end of the last complete exchange of a file that another process
// writes or has left, from its log or else from its records.
func (r *Reader) openExtent(name string, size int64) (extent, error) {
	x := extent{open: true}
	err := readLogFile(r.dir, name, -1, func(e event) error {
		if e.end <= size && !e.checkpoint {
			x.end, x.logEnd = e.end, e.at
		}
		return nil
	})
	if err == nil && x.end > 0 {
		return x, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return x, err
	}
	x.logFailed = true
	x.end, _, err = scanFile(r.dir, name, size, func([]byte) error { return nil })
	if errors.Is(err, ErrCorrupt) {
		err = nil
	}
	return x, err
}

// files calls fn for each file of the archive, sorted by name.
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

// Index writes the CDXJ index of the whole archive, sorted by bytes (as LC_ALL=C sort
// does). Memory use is limited; a large index log needs a temporary file.
func (r *Reader) Index(ctx context.Context, w io.Writer) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	if err := r.lines(ctx, Span{To: "\xff"}, bw); err != nil {
		return err
	}
	return bw.Flush()
}

// Capture is a response that was read from an archive.
type Capture struct {
	URL       string
	Time      time.Time
	Type      string  // "response" or "revisit"
	Truncated string  // reason why Body is incomplete
	Fields    []Field // of the WARC record
	Head      []byte  // "HTTP/1.1 200 OK\r\n...\r\n\r\n"
	Body      []byte  // with content coding; nil for a revisit
}

// ReadAt reads one response or revisit. If loc has a digest, the payload must have it. The length
// may be 0 if it is not known.
// The error wraps ErrCorrupt, os.ErrNotExist, or an error of the file system.
func (r *Reader) ReadAt(loc Location) (*Capture, error) {
	s, err := r.OpenAt(loc)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if s.Size > MaxCapture {
		return nil, corrupt("%s at %d: %s of %d bytes", loc.File, loc.Offset, s.Type, s.Size)
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(s); err != nil {
		return nil, err
	}
	if s.Type == "response" {
		s.Body = body.Bytes()
	}
	return &s.Capture, nil
}

// Stream is a capture of which the body is being read, in constant memory. It is not safe for
// concurrent use. The caller must call Close.
type Stream struct {
	Capture       // without Body
	Size    int64 // of the body, in bytes

	loc  Location
	file io.Closer
	scan *scanner
	rec  *Record
	rest io.Reader
	sum  hash.Hash
}

// OpenAt is ReadAt for a body of any size, which Read returns.
func (r *Reader) OpenAt(loc Location) (*Stream, error) {
	if loc.Offset < 0 || loc.Length < 0 || loc.File != filepath.Base(loc.File) ||
		!strings.HasSuffix(loc.File, warcSuffix) {
		return nil, corrupt("no such location: %+v", loc)
	}
	f, err := openWARC(r.dir, loc.File)
	if err != nil {
		return nil, err
	}
	s := &Stream{loc: loc, file: f, sum: sha1.New()}
	if err := s.begin(f); err != nil {
		f.Close()
		return nil, err
	}
	return s, nil
}

// begin reads the headers.
func (s *Stream) begin(f io.ReaderAt) (err error) {
	loc := s.loc
	length := cmp.Or(loc.Length, math.MaxInt64-loc.Offset)
	s.scan = newScanner(io.NewSectionReader(f, loc.Offset, length), loc.File, loc.Offset)
	s.rec, err = s.scan.next()
	if errors.Is(err, io.EOF) {
		err = corrupt("%s ends before %d", loc.File, loc.Offset)
	}
	if err != nil {
		return err
	}
	rec := s.rec
	if rec.Type != "response" && rec.Type != "revisit" {
		return corrupt("%s at %d: %s", loc.File, loc.Offset, rec.Type)
	}
	s.Capture = Capture{URL: rec.URL, Time: rec.Time, Type: rec.Type,
		Truncated: rec.Get("WARC-Truncated"), Fields: rec.Fields}
	s.Head, s.rest = readHead(rec.Block)
	s.Size = rec.Length - int64(len(s.Head))
	return nil
}

// Read reads the body. At its end it checks the record and the digest, and returns an error that
// wraps ErrCorrupt, instead of io.EOF, if they are wrong.
func (s *Stream) Read(p []byte) (int, error) {
	n, err := s.rest.Read(p)
	s.sum.Write(p[:n])
	switch {
	case err == nil:
		return n, nil
	case !errors.Is(err, io.EOF):
		return n, s.scan.readError(err)
	}
	if s.scan.rec != nil {
		if err := s.check(); err != nil {
			return n, err
		}
	}
	return n, io.EOF
}

// check checks the record after its end was read.
func (s *Stream) check() error {
	if err := s.scan.finish(); err != nil {
		return err
	}
	at, loc := s.rec.Location, s.loc
	if loc.Length != 0 && at.Length != loc.Length || loc.Digest != "" && loc.Digest != at.Digest {
		return corrupt("%s at %d: another record", loc.File, loc.Offset)
	}
	if d := at.Digest; s.Type == "response" && strings.HasPrefix(d, "sha1:") &&
		d != digest(s.sum.Sum(nil)).String() {
		return corrupt("%s at %d: payload digest", loc.File, loc.Offset)
	}
	return nil
}

// Close closes the file.
func (s *Stream) Close() error { return s.file.Close() }
