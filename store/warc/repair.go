package warc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

const (
	warcSuffix = ".warc.gz"
	openSuffix = ".open"
	tmpSuffix  = ".tmp"
)

func openName(name string) string { return name + openSuffix }
func indexName(name string) string {
	return strings.TrimSuffix(name, warcSuffix) + ".cdxj"
}
func logName(name string) string { return indexName(name) + openSuffix }

// list returns the names of the WARC files in a directory, sorted, and which are open.
func list(dir string) (names []string, open map[string]bool, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	open = map[string]bool{}
	for _, d := range all { // sorted: a finished file comes before an open one
		name, isOpen := strings.CutSuffix(d.Name(), openSuffix)
		if !strings.HasSuffix(name, warcSuffix) || !d.Type().IsRegular() {
			continue
		}
		if n := len(names); isOpen && n > 0 && names[n-1] == name {
			continue // it was renamed while the directory was read
		}
		names = append(names, name)
		open[name] = isOpen
	}
	return names, open, nil
}

// inventory is what repair found.
type inventory struct {
	files, serial int
	bytes         int64
	repaired      map[string]int64 // where the files end that were open
}

var serialForm = regexp.MustCompile(`-([0-9]{5,9})\.warc\.gz$`)

// repair finishes the open files of another process and builds missing indexes. It reads
// only open files, from their last checkpoint, and files without an index.
func repair(dir string, log *slog.Logger) (h inventory, err error) {
	names, open, err := list(dir)
	if err != nil {
		return h, err
	}
	h.repaired = map[string]int64{}
	for _, name := range names {
		if m := serialForm.FindStringSubmatch(name); m != nil {
			n, _ := strconv.Atoi(m[1])
			h.serial = max(h.serial, n)
		}
		if open[name] {
			h.repaired[name], err = repairOpen(dir, name, log)
		} else if missing(filepath.Join(dir, indexName(name))) {
			err = reindex(dir, name, log)
		}
		if err != nil {
			return h, err
		}
	}
	return h.count(dir)
}

// missing reports whether the file does not exist.
func missing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, os.ErrNotExist)
}

// count removes temporary files and counts files and bytes.
func (h inventory) count(dir string) (inventory, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return h, err
	}
	for _, d := range all {
		name := d.Name()
		if strings.HasSuffix(name, ".cdxj"+tmpSuffix) ||
			strings.HasSuffix(name, ".cdxj"+openSuffix) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return h, err
			}
		}
	}
	h.files, h.bytes, err = size(dir)
	return h, err
}

// size returns the number of WARC files in a directory, and the size of all its files.
func size(dir string) (files int, bytes int64, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, err
	}
	for _, d := range all {
		info, err := d.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // it was moved away meanwhile
		}
		if err != nil {
			return 0, 0, err
		}
		if info.Mode().IsRegular() {
			bytes += info.Size()
		}
		if strings.HasSuffix(strings.TrimSuffix(d.Name(), openSuffix), warcSuffix) {
			files++
		}
	}
	return files, bytes, nil
}

// repairOpen truncates an open file after its last complete record and finishes it. It returns its
// end, 0 if nothing is left.
func repairOpen(dir, name string, log *slog.Logger) (end int64, err error) {
	path := filepath.Join(dir, openName(name))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	s := newSorter()
	defer s.close()
	from, err := readTrustedLog(dir, name, info.Size(), s)
	if err != nil {
		return 0, err
	}
	unread := io.NewSectionReader(f, from, info.Size()-from)
	end, records, err := newScanner(unread, name, from).index(s.add)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return 0, err
	}
	if from == 0 && records <= 1 { // nothing, or only the warcinfo record
		return 0, removeOpen(dir, name)
	}
	if end < info.Size() {
		if err := f.Truncate(end); err != nil {
			return 0, err
		}
	}
	if err := f.Sync(); err != nil {
		return 0, err
	}
	log.Info("repaired WARC file", "file", name, "bytes", end, "cut", info.Size()-end,
		"read", info.Size()-from)
	_, err = finishFile(dir, name, s)
	return end, err
}

// readTrustedLog adds the index lines of a log up to its last checkpoint to s and returns
// the end of the WARC there. A log that is missing, damaged or contradicts the WARC is
// ignored.
func readTrustedLog(dir, name string, size int64, s *sorter) (end int64, err error) {
	var at int64
	err = readLogFile(dir, name, -1, func(e event) error {
		if e.checkpoint { // the WARC up to end and the log up to at are valid
			end, at = e.end, e.at
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) || err == nil && end > size {
		return 0, nil
	}
	if err != nil || end == 0 {
		return 0, err
	}
	return end, readLogFile(dir, name, at, linesUpTo(end, s.add))
}

// reindex builds the index of a finished file. A damaged file is indexed up to the damage
// and never changed.
func reindex(dir, name string, log *slog.Logger) error {
	s := newSorter()
	defer s.close()
	_, _, err := scanFile(dir, name, -1, s.add)
	if errors.Is(err, ErrCorrupt) {
		log.Warn("indexed WARC file up to a damaged record", "file", name, "err", err)
	} else if err != nil {
		return err
	}
	_, err = writeIndex(dir, name, s)
	return err
}

// scanFile reads a file up to an offset, or to its end if that is negative, and calls fn with its
// index lines.
func scanFile(dir, name string, to int64, fn func([]byte) error) (int64, int, error) {
	f, err := openWARC(dir, name)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	if to < 0 {
		info, err := f.Stat()
		if err != nil {
			return 0, 0, err
		}
		to = info.Size()
	}
	return newScanner(io.NewSectionReader(f, 0, to), name, 0).index(fn)
}

// openWARC opens a file under its final or its temporary name. It may be renamed
// meanwhile.
func openWARC(dir, name string) (f *os.File, err error) {
	for range 2 {
		for _, n := range []string{name, openName(name)} {
			f, err = os.Open(filepath.Join(dir, n))
			if !errors.Is(err, os.ErrNotExist) {
				return f, err
			}
		}
	}
	return nil, fmt.Errorf("warc: %w", err)
}
