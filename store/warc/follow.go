package warc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Follow calls fn for each record that is not read yet. at says up to where each file was read:
// offsets in bytes, by name. Follow sets the offset of a file to the start of a record before it
// calls fn, and to the end of the file after the last one, so that a caller that continues with
// a copy of at, made by fn, reads this record again and none before it. A damaged record is left
// out, with those after it up to the next capture, and reported as ErrCorrupt at the end. Unless fn
// calls Check, it may not notice the damage. Other errors, and those of fn, stop it.
func (r *Reader) Follow(
	ctx context.Context, at map[string]int64, fn func(Record) error,
) error {
	return r.FollowBut(ctx, at, nil, fn)
}

// A Known returns the end of a part of a file that begins at an offset and need not be read, or 0
// if it knows of none. It is called with the start of each record.
type Known func(file string, offset int64) (end int64, err error)

// FollowBut is Follow without the parts that are known: at is set to their ends. An error of known
// is like one of fn. Known may be nil.
func (r *Reader) FollowBut(
	ctx context.Context, at map[string]int64, known Known, fn func(Record) error,
) error {
	k := &skipper{r: r}
	err := r.files(ctx, func(name string, x extent) error {
		if at[name] >= x.end {
			return nil
		}
		err := r.followFile(ctx, name, x, at, known, fn, k)
		if err == nil {
			at[name] = x.end
		}
		return err
	})
	if err != nil {
		return err
	}
	return k.err()
}

// errKnown ends the reading of a file at a part that is known.
var errKnown = errors.New("known")

func (r *Reader) followFile(
	ctx context.Context, name string, x extent, at map[string]int64, known Known,
	fn func(Record) error, k *skipper,
) error {
	for at[name] < x.end {
		from := at[name]
		to, err := knownAt(known, name, from)
		if err == nil && to == 0 {
			var damaged int64
			damaged, err = r.readFile(ctx, name, x.end, from, func(rec Record) (err error) {
				at[name] = rec.Location.Offset
				if at[name] > from {
					to, err = knownAt(known, name, at[name])
				}
				if err != nil || to > 0 {
					return cmp.Or(err, errKnown)
				}
				return fn(rec)
			})
			if err == nil {
				return nil
			}
			if errors.Is(err, ErrCorrupt) {
				to, err = k.skip(name, x, damaged, err)
			}
		}
		if err != nil && !errors.Is(err, errKnown) {
			return err
		}
		at[name] = to
	}
	return nil
}

// knownAt returns the end of what is known at an offset, or 0.
func knownAt(known Known, name string, offset int64) (end int64, err error) {
	if known != nil {
		end, err = known(name, offset)
	}
	if end <= offset {
		end = 0
	}
	return end, err
}

// readFile calls fn for the records of a part of a file. With an error it returns the offset of the
// record that was being read.
func (r *Reader) readFile(
	ctx context.Context, name string, end, from int64, fn func(Record) error,
) (at int64, err error) {
	f, err := openWARC(r.dir, name)
	if err != nil {
		return from, err
	}
	defer f.Close()
	s := newScanner(io.NewSectionReader(f, from, end-from), name, from)
	err = s.each(ctx, fn)
	return s.off, err
}

// MaxFiles bounds the files of an archive in a position that another peer sends. By default a file
// has 1 GiB.
const MaxFiles = 8000

// CheckPosition checks a position that another peer has sent, or a part of one.
func CheckPosition(at map[string]int64) error {
	if len(at) > MaxFiles {
		return fmt.Errorf("warc: %d files, at most %d", len(at), MaxFiles)
	}
	const maxName = 255 // bytes
	for name, offset := range at {
		if name == "" || len(name) > maxName || strings.ContainsAny(name, "/\x00") || offset < 0 {
			return fmt.Errorf("warc: offset %d of file %.*q", offset, maxName, name)
		}
	}
	return nil
}
