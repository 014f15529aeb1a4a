package warc

import (
	"bufio"
	"bytes"
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

const (
	sortMemory = 8 << 20  // maximum size in bytes of lines sorted in memory
	maxLine    = 64 << 10 // maximum length in bytes of an index line
)

// source returns a reader of a sorted run of lines, from its begin on.
type source func() io.Reader

// sorter sorts lines. It uses sortMemory bytes of memory, and a temporary file if there
// are more lines.
type sorter struct {
	limit int // of size
	size  int // of the lines and their slice headers
	buf   []byte
	lines [][]byte
	tmp   *os.File
	end   int64
	runs  []source
}

func newSorter() *sorter { return &sorter{limit: sortMemory} }

// add adds a copy of a line, which has no line feed.
func (s *sorter) add(line []byte) error {
	if s.size+len(line) > s.limit && len(s.lines) > 0 {
		if err := s.spill(); err != nil {
			return err
		}
	}
	if cap(s.buf)-len(s.buf) < len(line) { // earlier lines keep pointing into the old buffer
		s.buf = make([]byte, 0, max(64<<10, min(2*cap(s.buf), s.limit), len(line)))
	}
	n := len(s.buf)
	s.buf = append(s.buf, line...)
	s.lines = append(s.lines, s.buf[n:len(s.buf):len(s.buf)])
	s.size += len(line) + 24
	return nil
}

func (s *sorter) spill() error {
	if s.tmp == nil {
		f, err := os.CreateTemp("", "warc-sort-")
		if err != nil {
			return err
		}
		// The file exists while it is open; close removes it on systems where this fails.
		os.Remove(f.Name())
		s.tmp = f
	}
	slices.SortFunc(s.lines, bytes.Compare)
	cw := &countWriter{w: io.NewOffsetWriter(s.tmp, s.end)}
	bw := bufio.NewWriterSize(cw, 64<<10)
	if err := errors.Join(writeLines(bw, s.lines), bw.Flush()); err != nil {
		return err
	}
	from, n, tmp := s.end, cw.n, s.tmp
	s.end += n
	s.runs = append(s.runs, func() io.Reader { return io.NewSectionReader(tmp, from, n) })
	s.buf, s.lines, s.size = s.buf[:0], s.lines[:0], 0
	return nil
}

// sources returns the sorted runs of all lines. No line may be added afterwards.
func (s *sorter) sources() []source {
	slices.SortFunc(s.lines, bytes.Compare)
	if len(s.lines) == 0 {
		return s.runs
	}
	return append(s.runs, func() io.Reader { return &lineReader{lines: s.lines} })
}

func (s *sorter) close() {
	if s.tmp != nil {
		s.tmp.Close()
		os.Remove(s.tmp.Name())
	}
}

// merge writes the lines of all sorted runs in order, with a small buffer for each run; one with a
// longer line gets maxLine.
func merge(ctx context.Context, w io.Writer, all []source) error {
	var live runs
	for _, open := range all {
		from := open()
		r := &run{from: from, br: bufio.NewReaderSize(from, 4<<10)}
		if err := r.next(); err != nil {
			return err
		}
		if r.line != nil {
			live = append(live, r)
		}
	}
	heap.Init(&live)
	for n := 0; len(live) > 0; n++ {
		if n&1023 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r := live[0]
		if _, err := w.Write(r.line); err != nil {
			return err
		}
		if err := r.next(); err != nil {
			return err
		}
		if r.line == nil {
			heap.Pop(&live)
		} else {
			heap.Fix(&live, 0)
		}
	}
	return nil
}

// run is a sorted run being read. line includes the line feed.
type run struct {
	from io.Reader
	br   *bufio.Reader
	line []byte
}

func (r *run) next() (err error) {
	r.line, err = r.br.ReadSlice('\n')
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF) && len(r.line) == 0:
		r.line = nil
		return nil
	case errors.Is(err, bufio.ErrBufferFull) && r.br.Size() < maxLine:
		begin := bytes.NewReader(bytes.Clone(r.line))
		r.br = bufio.NewReaderSize(io.MultiReader(begin, r.from), maxLine)
		return r.next()
	case errors.Is(err, io.EOF) || errors.Is(err, bufio.ErrBufferFull):
		return fmt.Errorf("%w: line of an index", ErrCorrupt)
	}
	return err
}

type runs []*run

func (h runs) Len() int           { return len(h) }
func (h runs) Less(i, j int) bool { return bytes.Compare(h[i].line, h[j].line) < 0 }
func (h runs) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runs) Push(x any)        { *h = append(*h, x.(*run)) }
func (h *runs) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func writeLines(w io.Writer, lines [][]byte) error {
	for _, l := range lines {
		if _, err := w.Write(l); err != nil {
			return err
		}
		if _, err := w.Write([]byte{'\n'}); err != nil {
			return err
		}
	}
	return nil
}

// lineReader reads lines from memory and adds a line feed to each.
type lineReader struct {
	lines [][]byte
	at    int // within lines[0]
}

func (r *lineReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.lines) > 0 {
		if l := r.lines[0]; r.at < len(l) {
			m := copy(p[n:], l[r.at:])
			n, r.at = n+m, r.at+m
			continue
		}
		p[n] = '\n'
		n, r.at, r.lines = n+1, 0, r.lines[1:]
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

type countWriter struct {
	w io.Writer
	n int64
}

func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}
