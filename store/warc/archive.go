package warc

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
)

// Options configures an archive. The zero value is usable.
type Options struct {
	MaxFile int64 // size in bytes after which a new file is started; 1 GiB if 0
	Quota   int64 // maximum size of all files in bytes; no limit if 0
	MinFree int64 // bytes of the disk to keep free; 1 GiB if 0, no limit if negative
	// Info are the fields of the warcinfo record of each file, such as software, robots,
	// http-header-user-agent and operator.
	Info   []Field
	Logger *slog.Logger // slog.Default() if nil

	disk disk
}

// disk contains the operating system functions that an archive uses; tests inject errors.
type disk struct {
	create func(path string) (file, error)
	free   func(dir string) (int64, error)
}

// Stats are statistics of an archive.
type Stats struct {
	Files        int   // number of WARC files, finished or not
	Bytes        int64 // size of all files, including indexes
	Exchanges    int64 // appended since Open
	Records      int64 // appended since Open, including warcinfo records
	Refused      int64 // exchanges refused because of Quota or MinFree, since Open
	RefusedBytes int64 // their compressed size
}

// Archive is a directory of WARC files that is open for writing. Its methods are safe for
// concurrent use.
type Archive struct {
	Reader

	o        Options
	close    func() error // runs once
	info     atomic.Pointer[string]
	encoders sync.Pool
	repaired map[string]int64

	writing sync.Mutex // held by whoever uses w
	w       *writer

	mu    sync.Mutex
	live  map[string]extent // files that are being written or finished
	stats Stats
}

func (o Options) withDefaults() (Options, error) {
	o.MaxFile = cmp.Or(o.MaxFile, 1<<30)
	o.MinFree = max(cmp.Or(o.MinFree, 1<<30), 0)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.disk.create == nil {
		o.disk.create = func(path string) (file, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		}
	}
	if o.disk.free == nil {
		o.disk.free = FreeDisk
	}
	if o.MaxFile < 0 || o.Quota < 0 {
		return o, fmt.Errorf("warc: options out of range: file %d, quota %d", o.MaxFile, o.Quota)
	}
	for _, f := range o.Info {
		if !isToken(f.Name) {
			return o, fmt.Errorf("warc: invalid name of an info field: %q", f.Name)
		}
	}
	o.Info = append([]Field{
		{"format", "WARC File Format 1.1"},
		{"conformsTo",
			"http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
	}, o.Info...)
	return o, nil
}

// Open opens the archive in dir, creates it if it does not exist, and repairs it after a
// crash. The error wraps ErrLocked if another process has it open for writing. The caller
// must call Close.
func Open(dir string, o Options) (*Archive, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	lockFile, err := lock(dir)
	if err != nil {
		return nil, fmt.Errorf("warc: %s: %w", dir, err)
	}
	held, err := repair(dir, o.Logger)
	if err != nil {
		lockFile.Close()
		return nil, fmt.Errorf("warc: repair %s: %w", dir, err)
	}
	a := &Archive{o: o, live: map[string]extent{}, repaired: held.repaired}
	a.Reader = Reader{dir: dir, archive: a}
	a.stats.Files, a.stats.Bytes = held.files, held.bytes
	a.setInfo("")
	a.w = &writer{a: a, total: held.bytes, serial: held.serial, enc: newEncoder()}
	a.encoders.New = func() any { return newEncoder() }
	a.close = sync.OnceValue(func() error {
		return errors.Join(a.w.close(), lockFile.Close())
	})
	return a, nil
}

// Repaired returns the files that Open has repaired, and where they end now; 0 if nothing is left.
// A location behind that was lost in a power failure. The map must not be changed.
func (a *Archive) Repaired() map[string]int64 { return a.repaired }

// Close finishes the current file, syncs it and unlocks the directory. The archive can
// still be read. Further calls return the result of the first one.
func (a *Archive) Close() error { return a.close() }

// do runs fn, one call at a time, and then writes the pending lines of the index log.
func (a *Archive) do(fn func(*writer)) error {
	a.writing.Lock()
	defer a.writing.Unlock()
	if a.w.closed {
		return ErrClosed
	}
	fn(a.w)
	a.w.flush()
	return nil
}

// Append writes an exchange and returns the location of its response, or of its first
// record if it has no response. Digests and compression are computed in the caller's
// goroutine. The error wraps ErrInvalid, ErrClosed, ErrNoSpace (nothing was written, and
// a later call may succeed), or an error of the file system.
func (a *Archive) Append(x Exchange) (Location, error) {
	if err := x.check(); err != nil {
		return Location{}, err
	}
	e := a.encoders.Get().(*encoder)
	defer a.putEncoder(e)
	e.prepare(&x)
	var at *Entry
	if len(x.Response) > 0 {
		kind := "response"
		if x.Revisit != nil {
			kind = "revisit"
		}
		head := x.Response[:min(len(x.Response), maxHead)]
		v := newEntry(kind, x.URL, x.Time, head, e.digest(&x))
		at = &v
	}
	for try := range 3 {
		j := &job{info: *a.info.Load(), any: try == 2, entry: at}
		if j.any { // another file was started each time: leave out the optional field
			j.info = ""
		}
		if err := e.encode(&x, j.info); err != nil {
			return Location{}, err
		}
		j.data, j.first, j.records = e.buf.Bytes(), int64(e.first), e.records
		var loc Location
		var err error
		if err := a.do(func(w *writer) { loc, err = w.append(j) }); err != nil {
			return Location{}, err
		}
		if !errors.Is(err, errNewFile) {
			loc.Digest = e.digest(&x)
			return loc, err
		}
	}
	return Location{}, errNewFile
}

// Cut returns an exchange that was refused with ErrNoSpace with as much of its body as there is
// space for now, even if the rest cannot be compressed.
func (a *Archive) Cut(x Exchange) (Exchange, error) {
	head := x
	head.Body = nil
	e := a.encoders.Get().(*encoder)
	defer a.putEncoder(e)
	e.prepare(&head)
	if err := e.encode(&head, newID()); err != nil {
		return x, err
	}
	var room int64
	var err error
	if err := a.do(func(w *writer) { room, err = w.room() }); err != nil {
		return x, err
	}
	if err != nil {
		return x, err
	}
	room -= int64(e.buf.Len()) + 2*(lineSize(x.URL)+infoSize(a.o.Info))
	room -= room>>8 + 1<<10 // what gzip and the fields of a body may add
	if n := max(0, room); n < int64(len(x.Body)) {
		x.Body, x.Truncated = x.Body[:n], "length"
	}
	return x, nil
}

// putEncoder keeps an encoder for the next exchange unless its buffer is too large.
func (a *Archive) putEncoder(e *encoder) {
	if e.buf.Cap() <= 4<<20 {
		a.encoders.Put(e)
	}
}

// Stats returns the current statistics.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

// Recount is Stats for an archive that seems full: it notices that files were moved away, but reads
// the directory once a minute only.
func (a *Archive) Recount() Stats {
	_ = a.do(func(w *writer) { w.recount() }) // a closed archive remains as it is
	return a.Stats()
}

func (a *Archive) setInfo(id string) { a.info.Store(&id) }

// count updates the statistics.
func (a *Archive) count(fn func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(&a.stats)
}

// setLive tells readers how much of a file is written.
func (a *Archive) setLive(f *openFile) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live[f.name] = extent{open: true, end: f.end, logEnd: f.logEnd, logFailed: f.logFailed}
}

// removeLive makes readers look at the files in the directory instead.
func (a *Archive) removeLive(f *openFile) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, f.name)
}
