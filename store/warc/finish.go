package warc

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// mark is a checkpoint to be written to the log: the WARC up to end is durable.
type mark struct {
	f   *openFile
	end int64
	err error
}

// finished is the end of a file: its folder grew by grown bytes with the index.
type finished struct {
	f     *openFile
	grown int64
}

// checkpoint makes durable what is written, beside the writing, and then
// notes it in the log.
func (w *writer) checkpoint(f *openFile) {
	w.flush()
	f.checked, w.marking = f.end, true
	m := mark{f: f, end: f.end}
	w.helpers.Go(func() {
		m.err = m.f.sync()
		w.marks <- m
	})
}

// sync makes durable what is written of a file.
func (f *openFile) sync() error { return errors.Join(f.warc.Sync(), f.log.Sync()) }

func (w *writer) mark(m mark) {
	w.marking = false
	w.note(m)
}

// note writes a checkpoint, if the file is still the current one.
func (w *writer) note(m mark) {
	if m.err != nil || w.cur != m.f || m.f.logBad {
		return
	}
	w.flush()
	m.f.pending = appendCheckpoint(m.f.pending, m.end, m.f.crc)
	w.flush()
}

// rotate hands the current file over to be finished; one at a time.
func (w *writer) rotate() {
	w.flush()
	if w.busy {
		w.settle(<-w.finished)
	}
	f := w.cur
	w.cur, w.last, w.busy = nil, f, true
	w.a.setInfo("")
	w.helpers.Go(func() {
		defer close(f.done)
		r := finished{f: f, grown: w.a.finish(f)}
		w.finished <- r
	})
}

func (w *writer) settle(r finished) {
	w.busy = false
	w.total += r.grown
	w.a.count(func(s *Stats) {
		s.Bytes = w.total
		if r.f.end == r.f.head && r.f.index == nil {
			s.Files--
		}
	})
}

// finish makes a file durable, sorts its index, and gives both their names.
// If something fails the file stays as it is for the next Open: nothing is lost.
func (a *Archive) finish(f *openFile) (grown int64) {
	f.syncErr = f.sync()
	closed := errors.Join(f.warc.Close(), f.log.Close())
	if f.index = errors.Join(f.syncErr, closed); f.index == nil {
		grown, f.index = a.complete(f)
	}
	if f.index != nil {
		a.o.Logger.Warn("WARC file could not be finished; the next start tries again", "file", f.name, "err", f.index)
		f.index = fullError(f.index)
		return 0
	}
	a.forget(f)
	return grown
}

func (a *Archive) complete(f *openFile) (int64, error) {
	if f.end == f.head { // nothing came after the warcinfo record
		return -f.end - f.logEnd, removeOpen(a.dir, f.name)
	}
	s := newSorter()
	defer s.close()
	if f.logBad {
		if _, _, err := scanFile(a.dir, f.name, 0, f.end, s.add); err != nil {
			return 0, err
		}
	} else if err := withLog(a.dir, f.name, f.logEnd, func(r *bufio.Reader) error {
		_, err := addLog(s, r, f.end)
		return err
	}); err != nil {
		return 0, err
	}
	n, err := publish(a.dir, f.name, s)
	return n - f.logEnd, err
}

// publish writes the index of a file and then gives the file its name. The
// order makes sure that a finished file has its whole index.
func publish(dir, name string, s *sorter) (int64, error) {
	n, err := writeIndex(dir, name, s)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(filepath.Join(dir, openName(name)), filepath.Join(dir, name)); err != nil {
		return 0, err
	}
	if err := os.Remove(filepath.Join(dir, logName(name))); ignoreMissing(err) != nil {
		return 0, err
	}
	return n, syncDir(dir)
}

// writeIndex writes the index of a file whole or not at all; it returns its size.
func writeIndex(dir, name string, s *sorter) (_ int64, err error) {
	path := filepath.Join(dir, indexName(name))
	tmp, err := os.OpenFile(path+tmpSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			tmp.Close()
			os.Remove(tmp.Name())
		}
	}()
	cw := &countWriter{w: tmp}
	bw := bufio.NewWriterSize(cw, 64<<10)
	if err := merge(context.Background(), bw, s.sources()); err != nil {
		return 0, err
	}
	if err := errors.Join(bw.Flush(), tmp.Sync()); err != nil {
		return 0, err
	}
	if err := tmp.Close(); err != nil {
		return 0, err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return 0, err
	}
	return cw.n, syncDir(dir)
}

func removeOpen(dir, name string) error {
	return errors.Join(ignoreMissing(os.Remove(filepath.Join(dir, openName(name)))),
		ignoreMissing(os.Remove(filepath.Join(dir, logName(name)))))
}

// Sync makes durable what was appended before. It may be called by anybody at
// any time; appending goes on meanwhile.
func (a *Archive) Sync() error {
	var cur, old *openFile
	var m mark
	if err := a.do(func(w *writer) {
		w.flush()
		cur, old = w.cur, w.last
		if cur != nil {
			m = mark{f: cur, end: cur.end}
		}
	}); err != nil {
		return err
	}
	if old != nil {
		<-old.done
		if old.syncErr != nil {
			return fmt.Errorf("warc: %w", old.syncErr)
		}
	}
	if cur == nil {
		return nil
	}
	if err := cur.sync(); errors.Is(err, os.ErrClosed) { // it was full: its end makes it durable
		<-cur.done
		return cur.syncErr
	} else if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	if err := a.do(func(w *writer) { w.note(m) }); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}
