package warc

import (
	"context"
	"errors"
	"io"
)

// Follow calls fn for each record that is not read yet. at says up to where each file was read:
// offsets in bytes, by name. Follow sets the offset of a file to the start of a record before it
// calls fn, and to the end of the file after the last one, so that a caller that continues with
// a copy of at, made by fn, reads this record again and none before it. A damaged file is skipped
// from the damage on, and reported as ErrCorrupt after the other files were read. Other errors,
// and those of fn, stop it.
func (r *Reader) Follow(
	ctx context.Context, at map[string]int64, fn func(Record) error,
) error {
	var damaged error
	err := r.files(ctx, func(name string, x extent) error {
		if at[name] >= x.end {
			return nil
		}
		err := r.followFile(ctx, name, x.end, at, fn)
		if errors.Is(err, ErrCorrupt) {
			damaged, err = errors.Join(damaged, err), nil
		}
		if err == nil {
			at[name] = x.end
		}
		return err
	})
	return errors.Join(err, damaged)
}

func (r *Reader) followFile(
	ctx context.Context, name string, end int64, at map[string]int64, fn func(Record) error,
) error {
	f, err := openWARC(r.dir, name)
	if err != nil {
		return err
	}
	defer f.Close()
	from := at[name]
	s := newScanner(io.NewSectionReader(f, from, end-from), name, from)
	return s.each(ctx, func(rec Record) error {
		at[name] = rec.Location.Offset
		return fn(rec)
	})
}
