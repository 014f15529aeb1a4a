package warc

import (
	"bufio"
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

// list returns the names of the WARC files of a folder, in order, and whether they are finished.
func list(dir string) (names []string, open map[string]bool, err error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	open = map[string]bool{}
	for _, d := range all { // sorted; a finished file comes before its unfinished self
		name, isOpen := strings.CutSuffix(d.Name(), openSuffix)
		if !strings.HasSuffix(name, warcSuffix) || !d.Type().IsRegular() {
			continue
		}
		if n := len(names); isOpen && n > 0 && names[n-1] == name {
			continue // it got its name while the folder was read
		}
		names = append(names, name)
		open[name] = isOpen
	}
	return names, open, nil
}

// holdings is what repair found in the end.
type holdings struct {
	files, serial int
	bytes         int64
}

var serialForm = regexp.MustCompile(`-([0-9]{5,9})\.warc\.gz$`)

// repair finishes the files that another process left, makes indexes that are
// missing, and says what there is. Only unfinished files, from their last
// checkpoint, and files without index are read.
func repair(dir string, log *slog.Logger) (h holdings, err error) {
	names, open, err := list(dir)
	if err != nil {
		return h, err
	}
	for _, name := range names {
		if m := serialForm.FindStringSubmatch(name); m != nil {
			n, _ := strconv.Atoi(m[1])
			h.serial = max(h.serial, n)
		}
		if open[name] {
			err = repairOpen(dir, name, log)
		} else if _, e := os.Stat(filepath.Join(dir, indexName(name))); errors.Is(e, os.ErrNotExist) {
			err = reindex(dir, name, log)
		}
		if err != nil {
			return h, err
		}
	}
	return h.count(dir)
}

// count removes leftovers and adds up what there is.
func (h holdings) count(dir string) (holdings, error) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return h, err
	}
	for _, d := range all {
		name := d.Name()
		if strings.HasSuffix(name, ".cdxj"+tmpSuffix) || strings.HasSuffix(name, ".cdxj"+openSuffix) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return h, err
			}
			continue
		}
		info, err := d.Info()
		if err != nil {
			return h, err
		}
		if info.Mode().IsRegular() {
			h.bytes += info.Size()
		}
		if strings.HasSuffix(name, warcSuffix) {
			h.files++
		}
	}
	return h, nil
}

// repairOpen cuts a file at its last whole record and finishes it.
func repairOpen(dir, name string, log *slog.Logger) error {
	path := filepath.Join(dir, openName(name))
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	s := newSorter()
	defer s.close()
	from, err := trusted(dir, name, info.Size(), s)
	if err != nil {
		return err
	}
	end, records, err := newScanner(io.NewSectionReader(f, from, info.Size()-from), name, from).index(s.add)
	if err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	if from == 0 && records <= 1 { // nothing, or only the warcinfo record
		return removeOpen(dir, name)
	}
	if end < info.Size() {
		if err := f.Truncate(end); err != nil {
			return err
		}
	}
	if err := f.Sync(); err != nil {
		return err
	}
	log.Info("WARC file repaired", "file", name, "bytes", end, "cut", info.Size()-end, "read", info.Size()-from)
	_, err = publish(dir, name, s)
	return err
}

// trusted adds to s what the log of a file tells up to its last checkpoint,
// and says how much of the WARC that is. Logs that are missing, damaged, or
// disagree with the WARC are worth nothing.
func trusted(dir, name string, size int64, s *sorter) (end int64, err error) {
	var at int64
	err = withLog(dir, name, -1, func(r *bufio.Reader) (err error) {
		end, at, err = checkpoint(r)
		return err
	})
	if errors.Is(err, os.ErrNotExist) || err == nil && end > size {
		return 0, nil
	}
	if err != nil || end == 0 {
		return 0, err
	}
	return end, withLog(dir, name, at, func(r *bufio.Reader) error {
		_, err := addLog(s, r, end)
		return err
	})
}

// withLog calls fn with the first n bytes of a log, all of it if n is negative.
func withLog(dir, name string, n int64, fn func(*bufio.Reader) error) error {
	f, err := os.Open(filepath.Join(dir, logName(name)))
	if err != nil {
		return err
	}
	defer f.Close()
	var r io.Reader = f
	if n >= 0 {
		r = io.LimitReader(f, n)
	}
	return fn(bufio.NewReader(r))
}

// reindex makes the index of a finished file; a file with damage is indexed as
// far as it can be read, and never changed.
func reindex(dir, name string, log *slog.Logger) error {
	s := newSorter()
	defer s.close()
	_, _, err := scanFile(dir, name, 0, -1, s.add)
	if errors.Is(err, ErrCorrupt) {
		log.Warn("WARC file is damaged; it is indexed up to there", "file", name, "err", err)
	} else if err != nil {
		return err
	}
	_, err = writeIndex(dir, name, s)
	return err
}

// scanFile reads a file, finished or not, from one offset to another (to its
// end if that is negative) and calls fn with the lines of its index.
func scanFile(dir, name string, from, to int64, fn func([]byte) error) (int64, int, error) {
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
	return newScanner(io.NewSectionReader(f, from, to-from), name, from).index(fn)
}

// openWARC opens a file under whichever name it has; it may get its final
// name meanwhile.
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
