package warc

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	return r.extract(ctx, w, want, at, func(*Record, []byte) error {
		if mark == nil {
			return nil
		}
		return mark()
	})
}

// extract is Extract. It calls copied after each record that it has written, with the HTTP header
// of a capture.
func (r *Reader) extract(
	ctx context.Context, w io.Writer, want Want, at map[string]int64,
	copied func(rec *Record, head []byte) error,
) error {
	k := &skipper{r: r}
	err := r.files(ctx, func(name string, x extent) error {
		for at[name] < x.end {
			damaged, err := r.extractFile(ctx, name, x.end, w, want, at, copied)
			if errors.Is(err, ErrCorrupt) {
				at[name], err = k.skip(name, x, damaged, err)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return k.err()
}

// extractFile is extract for a file, up to the first damaged record, of which it returns the offset
// with the error.
func (r *Reader) extractFile(
	ctx context.Context, name string, end int64, w io.Writer, want Want, at map[string]int64,
	copied func(rec *Record, head []byte) error,
) (damaged int64, err error) {
	f, err := openWARC(r.dir, name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from := at[name]
	s := newScanner(io.NewSectionReader(f, from, end-from), name, from)
	for {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		rec, err := s.next()
		if errors.Is(err, io.EOF) {
			return 0, nil
		}
		if err != nil {
			return s.off, err
		}
		var head []byte
		if isCapture(rec) {
			head, _ = readHead(rec.Block)
		}
		if err := rec.Check(); err != nil {
			return s.off, err
		}
		at[name] = s.off
		if rec.Type != "warcinfo" && want != nil && !want(rec.URL, rec.Time) {
			continue
		}
		l := rec.Location
		if _, err := io.Copy(w, io.NewSectionReader(f, l.Offset, l.Length)); err != nil {
			return 0, fmt.Errorf("warc: copy %s: %w", name, err)
		}
		if err := copied(rec, head); err != nil {
			return 0, err
		}
	}
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
