package warc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	maxHeader = 64 << 10  // maximum size in bytes of a record's header
	maxHead   = 256 << 10 // maximum size in bytes of a parsed HTTP header
)

// Record is one record of a WARC file.
type Record struct {
	Location Location // Length is 0 while the record is being read
	Type     string   // warcinfo, request, response, revisit, metadata, ...
	ID       string   // with angle brackets
	URL      string   // WARC-Target-URI; "" in a warcinfo record
	Time     time.Time
	Fields   []Field // the whole header
	Length   int64   // of the block in bytes
	Block    io.Reader

	scan *scanner
}

// Check reads the rest of the record. The error matches ErrCorrupt if the record is damaged.
func (r *Record) Check() error {
	if r.scan.rec == nil {
		return nil
	}
	return r.scan.finish()
}

// Get returns the value of the first field with a name, ignoring case, or "".
func (r *Record) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// scanner reads records, one gzip member each, in constant memory. The reader of gowarc
// is not used because it does not report where a member ends, reads headers of any size,
// and panics on a version line of one byte.
type scanner struct {
	src    counter
	br     *bufio.Reader // over src
	gz     *gzip.Reader
	member *bufio.Reader // over gz
	file   string
	rec    *Record
	block  io.LimitedReader
	off    int64 // offset of the next member
}

type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// each calls fn with the records up to the end, or until ctx ends.
func (s *scanner) each(ctx context.Context, fn func(Record) error) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(*rec); err != nil {
			return err
		}
	}
}

// newScanner reads r, which starts at offset off of a file.
func newScanner(r io.Reader, file string, off int64) *scanner {
	s := &scanner{src: counter{r: r, n: off}, file: file, off: off, member: bufio.NewReaderSize(nil,
		32<<10)}
	s.br = bufio.NewReaderSize(&s.src, 64<<10)
	return s
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// next finishes the last record and reads the header of the next one. The error is io.EOF
// at the end of the file, ErrCorrupt if there is no complete record, or an error of the
// reader.
func (s *scanner) next() (*Record, error) {
	if s.rec != nil {
		if err := s.finish(); err != nil {
			return nil, err
		}
	}
	if _, err := s.br.Peek(1); err != nil {
		return nil, err
	}
	var err error
	if s.gz == nil {
		s.gz, err = gzip.NewReader(s.br)
	} else {
		err = s.gz.Reset(s.br)
	}
	if err != nil {
		return nil, s.readError(err)
	}
	s.gz.Multistream(false)
	s.member.Reset(s.gz)
	rec, err := readHeader(s.member)
	if err != nil {
		return nil, s.readError(err)
	}
	rec.Location = Location{File: s.file, Offset: s.off, Digest: rec.Get("WARC-Payload-Digest")}
	s.block = io.LimitedReader{R: s.member, N: rec.Length}
	rec.Block, rec.scan = blockReader{s}, s
	s.rec = rec
	return rec, nil
}

// blockReader reads the block of the record. Its errors match ErrCorrupt if the block is damaged.
type blockReader struct{ s *scanner }

func (b blockReader) Read(p []byte) (int, error) {
	n, err := b.s.block.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.s.readError(err)
	}
	return n, err
}

// finish reads the rest of the record and checks its end.
func (s *scanner) finish() error {
	rec := s.rec
	s.rec = nil
	if _, err := io.Copy(io.Discard, &s.block); err != nil {
		return s.readError(err)
	}
	if err := s.readTrailer(); err != nil {
		return s.readError(err)
	}
	after := s.src.n - int64(s.br.Buffered())
	rec.Location.Length = after - s.off
	s.off = after
	return nil
}

// readTrailer reads the end of a member, after the block.
func (s *scanner) readTrailer() error {
	var end [4]byte
	_, err := io.ReadFull(s.member, end[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if s.block.N != 0 || string(end[:]) != "\r\n\r\n" {
		return errors.New("block and its length differ")
	}
	switch _, err := s.member.ReadByte(); { // io.EOF means that the checksum is right
	case errors.Is(err, io.EOF):
		return nil
	case err == nil:
		return errors.New("member does not end after the record")
	default:
		return err
	}
}

// readError distinguishes invalid data from errors of the file system.
func (s *scanner) readError(err error) error {
	var path interface{ Timeout() bool } // *fs.PathError, syscall.Errno
	if errors.As(err, &path) || errors.Is(err, ErrCorrupt) {
		return err
	}
	return corrupt("%s, record at %d: %v", s.file, s.off, err)
}

// readHeader reads the version line and the header of a record.
func readHeader(br *bufio.Reader) (*Record, error) {
	left := maxHeader
	line := func() (string, error) {
		b, err := br.ReadSlice('\n')
		if left -= len(b); left < 0 || errors.Is(err, bufio.ErrBufferFull) {
			return "", errors.New("header too long")
		}
		if errors.Is(err, io.EOF) {
			return "", io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", err
		}
		b, ok := bytes.CutSuffix(b, []byte("\r\n"))
		if !ok {
			return "", errors.New("line without CRLF")
		}
		return string(b), nil
	}
	l, err := line()
	if err != nil {
		return nil, err
	}
	if l != "WARC/1.1" && l != "WARC/1.0" {
		return nil, errors.New("no WARC version")
	}
	rec := &Record{Length: -1}
	for {
		if l, err = line(); err != nil {
			return nil, err
		}
		if l == "" {
			return rec, rec.interpret()
		}
		if n := len(rec.Fields); n > 0 && (l[0] == ' ' || l[0] == '\t') { // folded line
			rec.Fields[n-1].Value += " " + strings.Trim(l, " \t")
			continue
		}
		name, value, ok := strings.Cut(l, ":")
		if !ok || name == "" {
			return nil, errors.New("header line without name")
		}
		rec.Fields = append(rec.Fields, Field{name, strings.Trim(value, " \t")})
	}
}

func (r *Record) interpret() error {
	length, err := strconv.ParseUint(r.Get("Content-Length"), 10, 63)
	if err != nil {
		return errors.New("no Content-Length")
	}
	r.Length = int64(length)
	r.Type, r.ID = r.Get("WARC-Type"), r.Get("WARC-Record-ID")
	if r.Type == "" || r.ID == "" {
		return errors.New("no WARC-Type or WARC-Record-ID")
	}
	// GNU wget writes angle brackets.
	r.URL = strings.TrimSuffix(strings.TrimPrefix(r.Get("WARC-Target-URI"), "<"), ">")
	if r.Time, err = time.Parse(time.RFC3339Nano, r.Get("WARC-Date")); err != nil {
		return errors.New("no WARC-Date")
	}
	return nil
}

// readHead reads an HTTP header, including the empty line, from a block.
func readHead(r io.Reader) ([]byte, *bufio.Reader) {
	br := bufio.NewReaderSize(r, 16<<10)
	var head []byte
	for len(head) < maxHead {
		l, err := br.ReadSlice('\n')
		head = append(head, l...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || string(l) == "\r\n" ||
			string(l) == "\n" {
			break
		}
	}
	return head, br
}

// index reads records up to the end of the input or the first damage and calls fn with
// the index line of each capture. It returns the end and number of the complete records.
// The error is ErrCorrupt if more data follows.
func (s *scanner) index(fn func(line []byte) error) (end int64, records int, err error) {
	end = s.off
	var line []byte
	for {
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			return s.off, records, nil
		}
		if err != nil {
			return end, records, err
		}
		capture := isCapture(rec)
		var head []byte
		if capture {
			head, _ = readHead(rec.Block)
		}
		if err := s.finish(); err != nil {
			return end, records, err
		}
		end, records = s.off, records+1
		if !capture {
			continue
		}
		e := newEntry(rec.Type, rec.URL, rec.Time, head, rec.Location.Digest)
		e.Location = rec.Location
		line = e.appendTo(line[:0])
		if err := fn(line); err != nil {
			return end, records, err
		}
	}
}

// isCapture reports whether a record has a line in the index.
func isCapture(r *Record) bool {
	return (r.Type == "response" || r.Type == "revisit") && isURL(r.URL) &&
		len(r.Location.Digest) < 200
}
