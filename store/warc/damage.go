package warc

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// A skipper leaves out the damaged records of an archive.
type skipper struct {
	r       *Reader
	records int
	first   error

	file   string  // of which places are known
	places []int64 // offsets of its captures, sorted
}

// skip leaves out the record at an offset because of err, which matches ErrCorrupt. It returns
// where reading goes on: at the next capture that the index lists, because what looks like a record
// may be a part of a page that is an archive itself.
func (k *skipper) skip(file string, x extent, at int64, err error) (next int64, _ error) {
	if k.records++; k.first == nil {
		k.first = err
	}
	if k.r.Damaged != nil {
		k.r.Damaged(err)
	}
	if k.file != file {
		places, err := k.r.places(file, x)
		if err != nil {
			return 0, err
		}
		k.file, k.places = file, places
	}
	i, _ := slices.BinarySearch(k.places, at+1)
	if i == len(k.places) {
		return x.end, nil
	}
	return min(k.places[i], x.end), nil
}

// err returns the error for what was left out, unless Reader.Damaged has it.
func (k *skipper) err() error {
	switch {
	case k.records == 0 || k.r.Damaged != nil:
		return nil
	case k.records == 1:
		return k.first
	}
	return fmt.Errorf("%w, and %d more records", k.first, k.records-1)
}

// places returns the offsets of the captures of a file by its index, sorted; none if there is no
// index.
func (r *Reader) places(file string, x extent) (all []int64, err error) {
	add := func(line []byte) error {
		if e, ok := parseEntry(line); ok && e.Location.File == file {
			all = append(all, e.Location.Offset)
		}
		return nil
	}
	err = readLogFile(r.dir, file, -1, func(e event) error { return add(e.line) })
	if errors.Is(err, os.ErrNotExist) { // it is finished
		err = ignoreMissing(eachLine(filepath.Join(r.dir, indexName(file)), add))
	}
	slices.Sort(all)
	return all, err
}

// eachLine calls fn with the lines of an index.
func eachLine(path string, fn func([]byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		if err := fn(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
