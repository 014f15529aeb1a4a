package warc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

const (
	maxHeader = 64 << 10  // bytes of a record's header
	maxHead   = 256 << 10 // bytes of an HTTP head that are looked at
)

// Record is one record as it is read.
type Record struct {
	Location Location // Length is 0 while the record is being read
	Type     string   // warcinfo, request, response, revisit, metadata, ...
	ID       string   // with its angle brackets
	URL      string   // WARC-Target-URI; "" in a warcinfo record
	Time     time.Time
	Fields   []Field // the whole header
	Length   int64   // of the block, in bytes
	Block    io.Reader
}

// Get returns the first field of that name, in any case, or "".
func (r *Record) Get(name string) string {
	for _, f := range r.Fields {
		if strings.EqualFold(f.Name, name) {
			return f.Value
		}
	}
	return ""
}

// scanner reads records one after the other, a gzip member each, in constant
// memory. The library's reader is not used for this: it does not say where a
// member ends, reads headers without bound, and panics on a version line of
// one byte.
type scanner struct {
	src    counter
	br     *bufio.Reader // over src
	gz     *gzip.Reader
	member *bufio.Reader // over gz
	file   string
	rec    *Record
	block  io.LimitedReader
	off    int64 // where the next member begins
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

// newScanner reads r, whose first byte stands at offset off of a file.
func newScanner(r io.Reader, file string, off int64) *scanner {
	s := &scanner{src: counter{r: r, n: off}, file: file, off: off, member: bufio.NewReaderSize(nil, 32<<10)}
	s.br = bufio.NewReaderSize(&s.src, 64<<10)
	return s
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrCorrupt}, args...)...)
}

// next reads the header of the next record, after finishing the last. The
// error is io.EOF at the end of the file, ErrCorrupt if what follows is no
// whole record, or that of the reader.
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
		return nil, s.damage(err)
	}
	s.gz.Multistream(false)
	s.member.Reset(s.gz)
	rec, err := readHeader(s.member)
	if err != nil {
		return nil, s.damage(err)
	}
	rec.Location = Location{File: s.file, Offset: s.off, Digest: rec.Get("WARC-Payload-Digest")}
	s.block = io.LimitedReader{R: s.member, N: rec.Length}
	rec.Block = &s.block
	s.rec = rec
	return rec, nil
}

// finish reads the rest of the record and sees that it ends as it should.
func (s *scanner) finish() error {
	rec := s.rec
	s.rec = nil
	if _, err := io.Copy(io.Discard, &s.block); err != nil {
		return s.damage(err)
	}
	if err := s.tail(); err != nil {
		return s.damage(err)
	}
	after := s.src.n - int64(s.br.Buffered())
	rec.Location.Length = after - s.off
	s.off = after
	return nil
}

// tail reads what stands between a block and the end of its member.
func (s *scanner) tail() error {
	var end [4]byte
	if _, err := io.ReadFull(s.member, end[:]); err != nil && err != io.EOF {
		return err
	}
	if s.block.N != 0 || string(end[:]) != "\r\n\r\n" {
		return errors.New("block and its length differ")
	}
	switch _, err := s.member.ReadByte(); err { // EOF says that the member's checksum is right
	case io.EOF:
		return nil
	case nil:
		return errors.New("member goes on after the record")
	default:
		return err
	}
}

// damage tells what is wrong with the bytes from what is wrong with the disk.
func (s *scanner) damage(err error) error {
	var path interface{ Timeout() bool } // *fs.PathError, syscall.Errno
	if errors.As(err, &path) {
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
		if err == io.EOF {
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
	r.URL = strings.TrimSuffix(strings.TrimPrefix(r.Get("WARC-Target-URI"), "<"), ">") // as GNU wget writes it
	if r.Time, err = time.Parse(time.RFC3339Nano, r.Get("WARC-Date")); err != nil {
		return errors.New("no WARC-Date")
	}
	return nil
}

// readHead reads an HTTP head, with its empty line, off a block.
func readHead(r io.Reader) ([]byte, *bufio.Reader) {
	br := bufio.NewReaderSize(r, 16<<10)
	var head []byte
	for len(head) < maxHead {
		l, err := br.ReadSlice('\n')
		head = append(head, l...)
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) || string(l) == "\r\n" || string(l) == "\n" {
			break
		}
	}
	return head, br
}

// index reads records to the end of r or of the whole ones, calls fn with the
// line of each capture, and returns where the last whole record ends and how
// many there were. The error is ErrCorrupt if something follows.
func (s *scanner) index(fn func(line []byte) error) (end int64, records int, err error) {
	end = s.off
	var line []byte
	for {
		rec, err := s.next()
		if err == io.EOF {
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
		e.file, e.offset, e.length = s.file, rec.Location.Offset, rec.Location.Length
		line = e.appendTo(line[:0])
		if err := fn(line); err != nil {
			return end, records, err
		}
	}
}

// isCapture says whether a record has a line in the index.
func isCapture(r *Record) bool {
	return (r.Type == "response" || r.Type == "revisit") && isURL(r.URL) && len(r.Location.Digest) < 200
}
