package warc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
)

// Options of an archive. The zero value is usable.
type Options struct {
	Prefix  string       // of file names: letters, digits, "_" and "."; "peerd" if empty
	MaxFile int64        // bytes after which a new file is begun; 1 GiB if 0
	Quota   int64        // bytes that all files of the folder may have together; 0: no limit
	MinFree int64        // bytes of the disk that stay free; 1 GiB if 0, no limit if negative
	Level   int          // of gzip, 1 to 9; 1 if 0
	Info    []Field      // of the warcinfo record of each file: software, robots, http-header-user-agent, operator, ...
	Logger  *slog.Logger // slog.Default() if nil

	disk disk
}

// disk is what an archive asks of the operating system; tests put faults in.
type disk struct {
	create func(path string) (file, error)
	free   func(dir string) (int64, error)
}

// Stats says how much an archive holds.
type Stats struct {
	Files        int   // finished and not
	Bytes        int64 // of all files of the folder, indexes included
	Exchanges    int64 // appended since Open
	Records      int64 // appended since Open, warcinfo included
	Refused      int64 // exchanges that did not fit Quota or MinFree
	RefusedBytes int64 // compressed
}

// Archive is a folder of WARC files that is being written. All methods may be
// called by anybody at any time.
type Archive struct {
	Reader

	o        Options
	lockFile *os.File
	ops      chan func(*writer)
	quit     chan struct{}
	done     chan struct{} // the writer ended
	close    func() error  // once
	info     atomic.Pointer[string]
	encoders sync.Pool

	mu    sync.Mutex
	live  map[string]extent // files that are being written or finished
	stats Stats
}

var prefixForm = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.]{0,63}$`)

func (o Options) withDefaults() (Options, error) {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxFile, 1<<30)
	def(&o.MinFree, 1<<30)
	o.MinFree = max(o.MinFree, 0)
	if o.Prefix == "" {
		o.Prefix = "peerd"
	}
	if o.Level == 0 {
		o.Level = 1
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.disk.create == nil {
		o.disk.create = func(path string) (file, error) {
			return os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		}
	}
	if o.disk.free == nil {
		o.disk.free = FreeDisk
	}
	if !prefixForm.MatchString(o.Prefix) || o.MaxFile < 0 || o.Quota < 0 || o.Level < 1 || o.Level > 9 {
		return o, fmt.Errorf("warc: options out of range: prefix %q, file %d, quota %d, level %d", o.Prefix, o.MaxFile, o.Quota, o.Level)
	}
	for _, f := range o.Info {
		if !isToken(f.Name) {
			return o, fmt.Errorf("warc: name of an info field: %q", f.Name)
		}
	}
	o.Info = append([]Field{
		{"format", "WARC File Format 1.1"},
		{"conformsTo", "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/"},
	}, o.Info...)
	return o, nil
}

// Open opens the archive in dir, which is made if need be, and repairs what a
// crash left. ErrLocked means that another process writes there. The caller
// calls Close.
func Open(dir string, o Options) (*Archive, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	lockFile, err := lock(dir)
	if err != nil {
		return nil, fmt.Errorf("warc: %s: %w", dir, err)
	}
	held, err := repair(dir, o.Logger)
	if err != nil {
		lockFile.Close()
		return nil, fmt.Errorf("warc: repairing %s: %w", dir, err)
	}
	a := &Archive{o: o, lockFile: lockFile, live: map[string]extent{},
		ops: make(chan func(*writer)), quit: make(chan struct{}), done: make(chan struct{})}
	a.Reader = Reader{dir: dir, archive: a}
	a.stats.Files, a.stats.Bytes = held.files, held.bytes
	a.setInfo("")
	w := &writer{a: a, total: held.bytes, serial: held.serial,
		finished: make(chan finished, 1), marks: make(chan mark, 1)}
	if w.enc, err = newEncoder(o.Level); err != nil {
		lockFile.Close()
		return nil, err
	}
	a.encoders.New = func() any {
		e, err := newEncoder(o.Level)
		if err != nil {
			panic(err) // the same level was good above
		}
		return e
	}
	a.close = sync.OnceValue(func() error {
		close(a.quit)
		<-a.done
		err := w.close()
		return errors.Join(err, a.lockFile.Close())
	})
	go func() {
		defer close(a.done)
		w.loop(a.ops, a.quit)
	}()
	return a, nil
}

// Close finishes the current file, makes it durable and lets the folder go.
// Reading works on. A second Close returns what the first did.
func (a *Archive) Close() error { return a.close() }

// do runs fn in the writer's goroutine and waits for it.
func (a *Archive) do(fn func(*writer)) error {
	ran := make(chan struct{})
	select {
	case a.ops <- func(w *writer) { fn(w); close(ran) }:
		<-ran
		return nil
	case <-a.done:
		return ErrClosed
	}
}

// Append stores an exchange and says where its response is; the Location of
// one without response is the first record's. Digests and compression are
// computed by the caller's goroutine. Errors: ErrInvalid, ErrClosed, ErrFull
// (nothing was written; a later call may find room), those of the disk.
func (a *Archive) Append(x Exchange) (Location, error) {
	if err := x.check(); err != nil {
		return Location{}, err
	}
	e := a.encoders.Get().(*encoder)
	defer a.putEncoder(e)
	e.prepare(&x)
	var at *entry
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
		if j.any { // files change faster than we encode: the field is optional, do without
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
		if err != errRotated {
			loc.Digest = e.digest(&x)
			return loc, err
		}
	}
	return Location{}, errRotated
}

// putEncoder keeps an encoder for the next exchange unless it is too big.
func (a *Archive) putEncoder(e *encoder) {
	if e.buf.Cap() <= 4<<20 {
		a.encoders.Put(e)
	}
}

// Stats may be called by anybody at any time.
func (a *Archive) Stats() Stats {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.stats
}

func (a *Archive) setInfo(id string) { a.info.Store(&id) }

// count changes the statistics.
func (a *Archive) count(fn func(*Stats)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fn(&a.stats)
}

// publish lets readers see what is written of a file.
func (a *Archive) publish(f *openFile) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.live[f.name] = extent{open: true, end: f.end, logEnd: f.logEnd, logBad: f.logBad}
}

// forget leaves a file to its names on the disk.
func (a *Archive) forget(f *openFile) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.live, f.name)
}

// Index writes the index lines of the whole archive in order; see Reader.Index.
func (a *Archive) Index(ctx context.Context, w io.Writer) error {
	// What was appended is in the log before it is read. A closed archive has it all.
	if err := a.do((*writer).flush); err != nil && err != ErrClosed {
		return err
	}
	return a.Reader.Index(ctx, w)
}
