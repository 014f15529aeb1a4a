package warc

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// syncResult is the result of syncing a file for a checkpoint: the WARC is durable up to
// end.
type syncResult struct {
	f   *openFile
	end int64
	err error
}

// checkpoint syncs a file in another goroutine and then writes a checkpoint to its log.
func (w *writer) checkpoint(f *openFile) {
	w.flush()
	f.checkpointed, w.checkpointing = f.end, true
	m := syncResult{f: f, end: f.end}
	w.helpers.Go(func() {
		m.err = m.f.sync()
		w.a.writing.Lock()
		defer w.a.writing.Unlock()
		w.checkpointing = false
		w.logCheckpoint(m)
	})
}

// sync syncs a file. After a failure it fails always: what could not be written is lost, but the
// system may report it once only.
func (f *openFile) sync() error {
	f.syncing.Lock()
	defer f.syncing.Unlock()
	if f.unsynced == nil {
		f.unsynced = errors.Join(f.warc.Sync(), f.log.Sync())
	}
	return f.unsynced
}

// logCheckpoint writes a checkpoint to the log if the file is still the current one.
func (w *writer) logCheckpoint(m syncResult) {
	if m.err != nil || w.current != m.f || m.f.logFailed {
		return
	}
	w.flush()
	m.f.pending = appendCheckpoint(m.f.pending, m.end, m.f.crc)
	w.flush()
}

// rotate finishes the current file in another goroutine, one file at a time.
func (w *writer) rotate() {
	w.flush()
	if w.previous != nil {
		<-w.previous.done
		w.lost = cmp.Or(w.lost, w.previous.syncErr)
	}
	f := w.current
	w.current, w.previous, w.finishing = nil, f, true
	w.a.setInfo("")
	w.helpers.Go(func() {
		grown := w.a.finish(f)
		close(f.done)
		w.a.writing.Lock()
		defer w.a.writing.Unlock()
		w.recordFinished(f, grown)
	})
}

// recordFinished records that a file was finished, by which the directory has grown.
func (w *writer) recordFinished(f *openFile, grown int64) {
	w.finishing = w.finishing && w.previous != f
	w.total += grown
	w.a.count(func(s *Stats) {
		s.Bytes = w.total
		if f.end == f.infoEnd && f.indexErr == nil {
			s.Files--
		}
	})
}

// finish syncs a file, writes its sorted index, and gives both their final names. If
// this fails, the file remains for the next Open, and nothing is lost.
func (a *Archive) finish(f *openFile) (grown int64) {
	f.syncErr = f.sync()
	closed := errors.Join(f.warc.Close(), f.log.Close())
	if f.indexErr = errors.Join(f.syncErr, closed); f.indexErr == nil {
		grown, f.indexErr = a.complete(f)
	}
	if f.indexErr != nil {
		a.o.Logger.Warn("failed to finish WARC file; will try again at the next start",
			"file", f.name, "err", f.indexErr)
		f.indexErr = noSpaceError(f.indexErr)
		return 0
	}
	a.removeLive(f)
	return grown
}

func (a *Archive) complete(f *openFile) (int64, error) {
	if f.end == f.infoEnd { // nothing after the warcinfo record
		return -f.end - f.logEnd, removeOpen(a.dir, f.name)
	}
	s := newSorter()
	defer s.close()
	if f.logFailed {
		if _, _, err := scanFile(a.dir, f.name, f.end, s.add); err != nil {
			return 0, err
		}
	} else if err := readLogFile(a.dir, f.name, f.logEnd, linesUpTo(f.end, s.add)); err != nil {
		return 0, err
	}
	n, err := finishFile(a.dir, f.name, s)
	return n - f.logEnd, err
}

// finishFile writes the index of a file and then gives the file its final name, so that
// every finished file has a complete index.
func finishFile(dir, name string, s *sorter) (int64, error) {
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

// writeIndex atomically writes the index of a file and returns its size.
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

// Sync returns when everything appended before is durable. Appending may continue
// concurrently. After an error it fails until the archive is opened again.
func (a *Archive) Sync() error {
	var cur, old *openFile
	var lost error
	var m syncResult
	if err := a.do(func(w *writer) {
		w.flush()
		cur, old, lost = w.current, w.previous, w.lost
		if cur != nil {
			m = syncResult{f: cur, end: cur.end}
		}
	}); err != nil {
		return err
	}
	if old != nil {
		<-old.done
		lost = cmp.Or(lost, old.syncErr)
	}
	if lost != nil {
		return fmt.Errorf("warc: %w", lost)
	}
	if cur == nil {
		return nil
	}
	// If the file is closed, it was complete and is synced when it is finished.
	if err := cur.sync(); errors.Is(err, os.ErrClosed) {
		<-cur.done
		return cur.syncErr
	} else if err != nil {
		return fmt.Errorf("warc: %w", err)
	}
	if err := a.do(func(w *writer) { w.logCheckpoint(m) }); !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}
