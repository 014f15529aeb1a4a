package warc

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// Want says whether the exchange of a URL and a time is selected; nil selects all.
type Want func(url string, at time.Time) bool

// Extract copies the records of the selected exchanges to w as they are, and all warcinfo records,
// as one valid WARC file. at says up to where each file was read: offsets in bytes, by name. When
// Extract calls mark, which may be nil, exactly what is before at has been written. A damaged
// record is left out, with those after it up to the next capture, and reported as ErrCorrupt at the
// end.
func (r *Reader) Extract(
	ctx context.Context, w io.Writer, want Want, at map[string]int64, mark func() error,
) error {
	return r.extract(ctx, w, want, at, func(*Record, []byte, int64) error {
		if mark == nil {
			return nil
		}
		return mark()
	})
}

// extract is Extract. It calls copied after each record that it has written, with its length in the
// file and the HTTP header of a capture.
func (r *Reader) extract(
	ctx context.Context, w io.Writer, want Want, at map[string]int64,
	copied func(rec *Record, head []byte, length int64) error,
) error {
	var f *os.File // that is read
	name := ""
	defer func() { f.Close() }() // a nil file, too
	return r.Follow(ctx, at, func(rec Record) (err error) {
		from := rec.Location
		if from.File != name {
			f.Close()
			if f, err = openWARC(r.dir, from.File); err != nil {
				return err
			}
			name = from.File
		}
		var head []byte
		if isCapture(&rec) {
			head, _ = readHead(rec.Block)
		}
		if err := rec.Check(); err != nil {
			return err
		}
		at[name] = rec.scan.off
		if rec.Type != "warcinfo" && want != nil && !want(rec.URL, rec.Time) {
			return nil
		}
		n := rec.scan.off - from.Offset
		if _, err := io.Copy(w, io.NewSectionReader(f, from.Offset, n)); err != nil {
			return fmt.Errorf("warc: copy %s: %w", name, err)
		}
		return copied(&rec, head, n)
	})
}

// IndexOf is Index for the selected captures.
func (r *Reader) IndexOf(ctx context.Context, w io.Writer, want Want) error {
	if want == nil {
		return r.Index(ctx, w)
	}
	return r.Index(ctx, &entryWriter{fn: func(e Entry, line []byte) error {
		if !want(e.URL, e.Time) {
			return nil
		}
		return writeLines(w, [][]byte{line})
	}})
}
