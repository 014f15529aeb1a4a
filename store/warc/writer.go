package warc

import (
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
	checkEvery = 64 << 20 // bytes of WARC between two checkpoints
	freeEvery  = 1 << 20  // bytes of WARC between two looks at the free disk
)

// errRotated says that a file was begun meanwhile: encode again.
var errRotated = errors.New("warc: another file")

// file is what the writer needs of an *os.File.
type file interface {
	io.WriterAt
	Truncate(size int64) error
	Sync() error
	Close() error
}

// writer owns the file being written. All its methods run in the archive's
// one goroutine, or before that starts and after it ended.
type writer struct {
	a        *Archive
	cur      *openFile
	last     *openFile // the one before, being finished or finished
	total    int64     // bytes of the folder
	free     int64     // above MinFree when last looked, minus what was written since
	looked   int64     // bytes written since then
	serial   int
	finished chan finished // from the goroutine that finishes a file
	busy     bool          // there is one
	marks    chan mark     // from the goroutine that makes a checkpoint
	marking  bool          // there is one
	helpers  sync.WaitGroup
	enc      *encoder
}

// openFile is a file being written, and its log.
type openFile struct {
	name           string // when finished
	warc, log      file
	info           string // ID of the warcinfo record
	head           int64  // where that ends
	end, logEnd    int64  // of what is written
	crc            uint32 // of the log
	pending        []byte // lines that are not in the log yet
	logBad         bool   // the log could not be written: the index has to be read from the WARC
	checked        int64  // where the last checkpoint was begun
	done           chan struct{}
	syncErr, index error // why it could not be made durable, or finished; read them after done
}

// job is an encoded exchange.
type job struct {
	data    []byte
	info    string
	any     bool // fits any file
	first   int64
	records int
	entry   *entry // without file, offset and length
}

func (w *writer) append(j *job) (Location, error) {
	n := int64(len(j.data))
	if f := w.cur; f != nil && (f.logBad || f.end > f.head && f.end+n > w.a.o.MaxFile) {
		w.rotate()
	}
	line := int64(1024)
	if w.cur == nil {
		line += infoSize(w.a.o.Info)
	}
	if j.entry != nil {
		line += int64(3 * len(j.entry.url))
	}
	if err := w.room(n + 2*line); err != nil { // a line stands in the log, then in the index too
		w.a.count(func(s *Stats) { s.Refused++; s.RefusedBytes += n })
		return Location{}, err
	}
	if w.cur == nil {
		if err := w.create(); err != nil {
			return Location{}, err
		}
	}
	f := w.cur
	if j.info != f.info && !j.any {
		return Location{}, errRotated
	}
	at := f.end
	if err := w.write(f, j.data); err != nil {
		return Location{}, err
	}
	loc := Location{File: f.name, Offset: at, Length: j.first}
	if j.entry != nil {
		j.entry.file, j.entry.offset, j.entry.length = f.name, at, j.first
	}
	f.pending = appendEvent(f.pending, f.end, j.entry)
	w.a.publish(f)
	w.a.count(func(s *Stats) { s.Exchanges++; s.Records += int64(j.records); s.Bytes = w.total })
	if f.end-f.checked >= checkEvery && !w.marking {
		w.checkpoint(f)
	}
	return loc, nil
}

// room says whether n more bytes may be written.
func (w *writer) room(n int64) error {
	if q := w.a.o.Quota; q > 0 && w.total+n > q {
		return fmt.Errorf("%w: quota of %d bytes", ErrFull, q)
	}
	if w.looked += n; w.looked >= freeEvery || w.free < n {
		free, err := w.a.o.disk.free(w.a.dir)
		if err != nil {
			return err
		}
		w.looked, w.free = 0, free-w.a.o.MinFree
	}
	if w.free < n {
		return fmt.Errorf("%w: less than %d bytes of disk would be free", ErrFull, w.a.o.MinFree)
	}
	w.free -= n
	return nil
}

// write appends data to the WARC, all of it or nothing.
func (w *writer) write(f *openFile, data []byte) error {
	_, err := f.warc.WriteAt(data, f.end)
	if err == nil {
		f.end += int64(len(data))
		w.total += int64(len(data))
		return nil
	}
	if cut := f.warc.Truncate(f.end); cut != nil {
		w.abandon(f, cut)
	}
	return fullError(err)
}

// fullError wraps ErrFull around what says that there is no room.
func fullError(err error) error {
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
	}
	return fmt.Errorf("warc: %w", err)
}

// abandon leaves a file that cannot be written any more as it is; the next
// Open cuts it and finishes it.
func (w *writer) abandon(f *openFile, err error) {
	w.a.o.Logger.Error("WARC file is left as it is, to be repaired at the next start", "file", f.name, "err", err)
	f.syncErr, f.index = fmt.Errorf("warc: %w", err), err
	f.warc.Close()
	f.log.Close()
	close(f.done)
	w.cur = nil
	w.a.setInfo("")
}

// create begins a file with its warcinfo record.
func (w *writer) create() error {
	w.serial++
	now := time.Now().UTC()
	name := fmt.Sprintf("%s-%s-%05d.warc.gz", w.a.o.Prefix, now.Format("20060102150405"), w.serial)
	id, err := w.enc.encodeInfo(name, now, w.a.o.Info)
	if err != nil {
		return err
	}
	warcPath, logPath := filepath.Join(w.a.dir, openName(name)), filepath.Join(w.a.dir, logName(name))
	f := &openFile{name: name, info: id, done: make(chan struct{})}
	if f.warc, err = w.a.o.disk.create(warcPath); err != nil {
		return fullError(err)
	}
	if f.log, err = w.a.o.disk.create(logPath); err == nil {
		if err = w.write(f, w.enc.buf.Bytes()); err == nil {
			f.head, f.pending = f.end, appendEvent(nil, f.end, nil)
			w.cur = f
			w.a.setInfo(id)
			w.a.publish(f)
			w.a.count(func(s *Stats) { s.Files++; s.Records++; s.Bytes = w.total })
			return nil
		}
		f.log.Close()
	}
	f.warc.Close()
	err = fullError(err)
	return errors.Join(err, os.Remove(warcPath), ignoreMissing(os.Remove(logPath)))
}

// flush writes pending lines to the log. If that fails the WARC is still
// whole; its index is then read from it.
func (w *writer) flush() {
	f := w.cur
	if f == nil || len(f.pending) == 0 {
		return
	}
	if !f.logBad {
		if _, err := f.log.WriteAt(f.pending, f.logEnd); err != nil {
			f.logBad = true
			w.a.o.Logger.Warn("index of a WARC file has to be read from it", "file", f.name, "err", err)
		} else {
			n := int64(len(f.pending))
			f.crc = crc32.Update(f.crc, crc32.IEEETable, f.pending)
			f.logEnd += n
			w.total += n
			w.a.count(func(s *Stats) { s.Bytes = w.total })
		}
	}
	f.pending = f.pending[:0]
	w.a.publish(f)
}

// loop runs what is sent to the writer until quit is closed.
func (w *writer) loop(ops <-chan func(*writer), quit <-chan struct{}) {
	for {
		select {
		case op := <-ops:
			op(w)
			for range 64 { // pending lines of several exchanges go to the log at once
				select {
				case op := <-ops:
					op(w)
					continue
				default:
				}
				break
			}
			w.flush()
		case r := <-w.finished:
			w.settle(r)
		case m := <-w.marks:
			w.mark(m)
		case <-quit:
			return
		}
	}
}

// close finishes the current file and waits for all helpers.
func (w *writer) close() error {
	var err error
	if w.busy {
		w.settle(<-w.finished)
	}
	if f := w.cur; f != nil {
		w.rotate()
		w.settle(<-w.finished)
		err = errors.Join(f.syncErr, f.index)
	}
	go func() { w.helpers.Wait(); close(w.marks) }()
	for range w.marks {
	}
	return err
}

// infoSize bounds a warcinfo record with such fields.
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
