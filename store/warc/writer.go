package warc

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"
)

const (
	checkpointBytes  = 64 << 20 // bytes of WARC between two checkpoints
	recheckFreeBytes = 1 << 20  // bytes of WARC between two checks of the free disk space
	recountEvery     = time.Minute
)

// errNewFile means that a new file was started and the exchange has to be encoded again.
var errNewFile = errors.New("warc: a new file was started")

// file contains the methods of *os.File that the writer uses.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// writer owns the file being written. Its methods need Archive.writing.
type writer struct {
	a             *Archive
	current       *openFile
	previous      *openFile // the file before, being finished or finished
	total         int64     // size of all files
	recounted     time.Time // when it was last read from the directory
	free          int64     // above MinFree at the last check, minus bytes written since
	unchecked     int64     // bytes written since the last check
	serial        int
	finishing     bool  // a goroutine finishes previous
	checkpointing bool  // a goroutine syncs current for a checkpoint
	lost          error // why a file before previous, or an abandoned one, was not synced
	closed        bool
	helpers       sync.WaitGroup
	enc           *encoder
}

// openFile is a file being written, and its index log.
type openFile struct {
	name              string // final name
	warc, log         file
	info              string // ID of the warcinfo record
	infoEnd           int64  // end of the warcinfo record
	end, logEnd       int64  // end of the written data
	crc               uint32 // of the log
	pending           []byte // lines not yet written to the log
	logFailed         bool   // log not writable: the index has to be built from the WARC
	checkpointed      int64  // end at the last checkpoint
	syncing           sync.Mutex
	unsynced          error // of the first sync that failed
	done              chan struct{}
	syncErr, indexErr error // of syncing, of finishing; valid after done is closed
}

// job is an encoded exchange.
type job struct {
	data    []byte
	info    string
	any     bool // does not name a warcinfo record and so fits any file
	first   int64
	records int
	entry   *Entry // without its location
}

func (w *writer) append(j *job) (Location, error) {
	n := int64(len(j.data))
	if f := w.current; f != nil && (f.logFailed || f.end > f.infoEnd && f.end+n > w.a.o.MaxFile) {
		w.rotate()
	}
	line := lineSize("")
	if j.entry != nil {
		line = lineSize(j.entry.URL)
	}
	if w.current == nil {
		line += infoSize(w.a.o.Info)
	}
	// Reserve space for a line twice, in the log and in the index.
	if err := w.checkSpace(n + 2*line); err != nil {
		w.a.count(func(s *Stats) { s.Refused++; s.RefusedBytes += n })
		return Location{}, err
	}
	if w.current == nil {
		if err := w.create(); err != nil {
			return Location{}, err
		}
	}
	f := w.current
	if j.info != f.info && !j.any {
		return Location{}, errNewFile
	}
	at := f.end
	if err := w.write(f, j.data); err != nil {
		return Location{}, err
	}
	loc := Location{File: f.name, Offset: at, Length: j.first, End: f.end}
	if j.entry != nil {
		j.entry.Location = loc
	}
	f.pending = appendEvent(f.pending, f.end, j.entry)
	w.a.setLive(f)
	w.a.count(func(s *Stats) { s.Exchanges++; s.Records += int64(j.records); s.Bytes = w.total })
	if f.end-f.checkpointed >= checkpointBytes && !w.checkpointing {
		w.checkpoint(f)
	}
	return loc, nil
}

// checkSpace returns an error if n more bytes must not be written.
func (w *writer) checkSpace(n int64) error {
	if q := w.a.o.Quota; q > 0 && w.total+n > q && w.recount()+n > q {
		return fmt.Errorf("%w: quota of %d bytes", ErrNoSpace, q)
	}
	if w.unchecked += n; w.unchecked >= recheckFreeBytes || w.free < n {
		free, err := w.a.o.disk.free(w.a.dir)
		if err != nil {
			return err
		}
		w.unchecked, w.free = 0, free-w.a.o.MinFree
	}
	if w.free < n {
		return fmt.Errorf("%w: less than %d bytes would remain free", ErrNoSpace, w.a.o.MinFree)
	}
	w.free -= n
	return nil
}

// recount returns the size of all files, which it reads from the directory once a minute: files may
// have been moved away.
func (w *writer) recount() int64 {
	if w.finishing || time.Since(w.recounted) < recountEvery {
		return w.total
	}
	w.recounted = time.Now()
	files, bytes, err := size(w.a.dir)
	if err != nil {
		w.a.o.Logger.Warn("failed to measure archive", "err", err)
		return w.total
	}
	w.total = bytes
	w.a.count(func(s *Stats) { s.Files, s.Bytes = files, bytes })
	return w.total
}

// room returns how many bytes may be written.
func (w *writer) room() (int64, error) {
	free, err := w.a.o.disk.free(w.a.dir)
	n := free - w.a.o.MinFree
	if q := w.a.o.Quota; q > 0 {
		n = min(n, q-w.total)
	}
	return n, err
}

// write appends data to the WARC, all of it or nothing.
func (w *writer) write(f *openFile, data []byte) error {
	_, err := f.warc.WriteAt(data, f.end)
	if err == nil {
		f.end += int64(len(data))
		w.total += int64(len(data))
		return nil
	}
	if truncateErr := f.warc.Truncate(f.end); truncateErr != nil {
		w.abandon(f, truncateErr)
	}
	return noSpaceError(err)
}

// noSpaceError wraps errors about missing space in ErrNoSpace.
func noSpaceError(err error) error {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
	}
	return fmt.Errorf("warc: %w", err)
}

// abandon stops writing a file after an error. The next Open truncates and finishes it.
func (w *writer) abandon(f *openFile, err error) {
	w.a.o.Logger.Error("abandoned WARC file until the repair at the next start",
		"file", f.name, "err", err)
	f.syncErr, f.indexErr = fmt.Errorf("warc: %w", err), err
	w.lost = cmp.Or(w.lost, f.sync())
	f.warc.Close()
	f.log.Close()
	close(f.done)
	w.current = nil
	w.a.setInfo("")
}

// create starts a file with its warcinfo record.
func (w *writer) create() error {
	w.serial++
	now := time.Now().UTC()
	name := fmt.Sprintf("peerd-%s-%05d.warc.gz", now.Format("20060102150405"), w.serial)
	id, err := w.enc.encodeInfo(name, now, w.a.o.Info)
	if err != nil {
		return err
	}
	warcPath := filepath.Join(w.a.dir, openName(name))
	logPath := filepath.Join(w.a.dir, logName(name))
	f := &openFile{name: name, info: id, done: make(chan struct{})}
	if f.warc, err = w.a.o.disk.create(warcPath); err != nil {
		return noSpaceError(err)
	}
	if f.log, err = w.a.o.disk.create(logPath); err == nil {
		err = syncDir(w.a.dir) // Open has to find the file after a power failure
		if err == nil {
			err = w.write(f, w.enc.buf.Bytes())
		}
		if err == nil {
			f.infoEnd, f.pending = f.end, appendEvent(nil, f.end, nil)
			w.current = f
			w.a.setInfo(id)
			w.a.setLive(f)
			w.a.count(func(s *Stats) { s.Files++; s.Records++; s.Bytes = w.total })
			return nil
		}
		f.log.Close()
	}
	f.warc.Close()
	err = noSpaceError(err)
	return errors.Join(err, os.Remove(warcPath), ignoreMissing(os.Remove(logPath)))
}

// flush writes pending lines to the log. If that fails, the WARC is still complete and
// its index will be built from it.
func (w *writer) flush() {
	f := w.current
	if f == nil || len(f.pending) == 0 {
		return
	}
	if !f.logFailed {
		if _, err := f.log.WriteAt(f.pending, f.logEnd); err != nil {
			f.logFailed = true
			w.a.o.Logger.Warn("failed to write index log; index will be built from WARC file",
				"file", f.name, "err", err)
		} else {
			n := int64(len(f.pending))
			f.crc = crc32.Update(f.crc, crc32.IEEETable, f.pending)
			f.logEnd += n
			w.total += n
			w.a.count(func(s *Stats) { s.Bytes = w.total })
		}
	}
	f.pending = f.pending[:0]
	w.a.setLive(f)
}

// close finishes the current file and waits for all helpers.
func (w *writer) close() error {
	w.a.writing.Lock()
	f := w.current
	if f != nil {
		w.rotate()
	}
	w.closed = true
	w.a.writing.Unlock()
	w.helpers.Wait()
	if f == nil {
		return nil
	}
	return errors.Join(f.syncErr, f.indexErr)
}

// lineSize returns the maximum size of the index line of a URL.
func lineSize(url string) int64 { return 1024 + int64(3*len(url)) }

// infoSize returns the maximum size of a warcinfo record with the given fields.
func infoSize(info []Field) int64 {
	n := int64(1024)
	for _, f := range info {
		n += int64(len(f.Name) + len(f.Value) + 8)
	}
	return n
}

func ignoreMissing(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}
