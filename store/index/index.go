package index

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/blevesearch/bleve/v2/index/scorch"
	bleve "github.com/blevesearch/bleve_index_api"
	"github.com/fxamacker/cbor/v2"

	"peerd/store"
)

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("index: closed")
	// ErrLocked is returned by Open if another process uses the index.
	ErrLocked = errors.New("index: in use by another process")
)

// format is the version of what is stored. An index of another version is built again.
const format = 7

// The internal keys of the index.
var (
	keyFormat   = []byte("format")
	keyPosition = []byte("position")
)

// lockWait is how long Open waits for the lock of another process.
const lockWait = "2s"

// mergePlan makes scorch merge up to eight segments when there are more than four of about equal
// size. By default it merges all that have less than 2,000 pages at every batch, so that each page
// is written many times. With four at a time, a fifth more is written, and the index is 3 % larger.
var mergePlan = map[string]any{"FloorSegmentSize": 300, "MaxSegmentsPerTier": 4,
	"SegmentsPerMergeTask": 8, "TierGrowth": 4}

// Position says up to where the files of an archive are indexed: offsets in bytes, by file.
type Position map[string]int64

// Index is an index in a directory.
type Index struct {
	dir   string
	stems stemmer  // of queries
	pages analyzer // used by Apply

	mu       sync.Mutex
	scorch   bleve.Index // nil after Close, and after a failure until it is used
	queue    *bleve.AnalysisQueue
	position Position
	version  uint64 // see Reader.Version
	closed   bool
}

// versions counts the changes of all indexes.
var versions atomic.Uint64

// Open opens the index in dir and creates it if there is none, or one that is of another version or
// damaged. The caller must call Close.
func Open(dir string) (*Index, error) {
	x := &Index{dir: dir}
	err := x.open()
	if errors.Is(err, errFormat) {
		if err = os.RemoveAll(dir); err == nil {
			err = x.open()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", dir, err)
	}
	return x, nil
}

// Remove deletes the index in dir. It must not be open.
func Remove(dir string) error { return os.RemoveAll(dir) }

var errFormat = errors.New("of another version, or damaged")

// open opens scorch and reads the position. x.mu is held, or only the caller has x.
func (x *Index) open() error {
	_, err := os.Stat(filepath.Join(x.dir, "root.bolt"))
	created := errors.Is(err, os.ErrNotExist)
	queue := bleve.NewAnalysisQueue(1) // pages are analyzed before
	s, err := openScorch(x.dir, queue)
	if err != nil {
		queue.Close()
		return err
	}
	if created {
		err = s.SetInternal(keyFormat, binary.AppendUvarint(nil, format))
	}
	var position Position
	if err == nil {
		position, err = readPosition(s)
	}
	if err != nil {
		queue.Close()
		return errors.Join(err, s.Close())
	}
	x.scorch, x.queue, x.position, x.version = s, queue, position, versions.Add(1)
	return nil
}

// openScorch opens scorch. Its errors are those of bbolt, which it does not wrap, and which panics,
// too, if its file is damaged.
func openScorch(dir string, queue *bleve.AnalysisQueue) (s bleve.Index, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errFormat, p)
		}
	}()
	s, err = scorch.NewScorch(scorch.Name, map[string]any{
		"path": dir, "bolt_timeout": lockWait, "scorchMergePlanOptions": mergePlan,
	}, queue)
	if err == nil {
		err = s.Open()
	}
	if err == nil {
		return s, nil
	}
	switch err.Error() {
	case "timeout":
		err = ErrLocked
	case "invalid database", "version mismatch", "checksum error":
		err = fmt.Errorf("%w: %w", errFormat, err)
	}
	return nil, err
}

// readPosition checks the version and returns the position.
func readPosition(s bleve.Index) (Position, error) {
	r, err := s.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	version, err := r.GetInternal(keyFormat)
	if err != nil {
		return nil, err
	}
	if v, n := binary.Uvarint(version); n <= 0 || v != format {
		return nil, errFormat
	}
	p := Position{}
	stored, err := r.GetInternal(keyPosition)
	if err != nil || stored == nil {
		return p, err
	}
	if err := cbor.Unmarshal(stored, &p); err != nil {
		return nil, errFormat
	}
	return p, nil
}

// Close closes the index. Readers must have been closed.
func (x *Index) Close() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.closed = true
	return x.stop()
}

// stop closes scorch. x.mu is held.
func (x *Index) stop() error {
	if x.scorch == nil {
		return nil
	}
	err := x.scorch.Close()
	x.queue.Close()
	x.scorch = nil
	return err
}

// Position returns the position of the last Apply.
func (x *Index) Position() Position {
	x.mu.Lock()
	defer x.mu.Unlock()
	return maps.Clone(x.position)
}

// A Batch is a set of changes.
type Batch struct {
	// Pages replace what is stored of their URLs. Of two with the same URL, the later counts.
	Pages []Document
	// Removed are the URLs of pages to be removed, unless they are among Pages.
	Removed []store.URL
	// Position replaces the position. It must not be changed afterwards.
	Position Position
}

// Apply stores a batch and returns when it is on disk. After an error, nothing of it is stored,
// and it may be tried again.
func (x *Index) Apply(b Batch) error {
	x.mu.Lock()
	s, err := x.running()
	x.mu.Unlock()
	if err != nil {
		return err
	}
	changes := bleve.NewBatch()
	for _, u := range b.Removed {
		changes.Delete(idOf(u))
	}
	for _, d := range b.Pages {
		a, err := x.pages.analyze(d)
		if err != nil {
			return fmt.Errorf("index %s: %w", d.URL, err)
		}
		changes.Update(a)
	}
	at, err := encMode.Marshal(b.Position)
	if err != nil {
		return fmt.Errorf("index: %w", err)
	}
	changes.SetInternal(keyPosition, at)
	if err := s.Batch(changes); err != nil {
		// scorch would try again without a pause, and keep what failed in memory.
		x.mu.Lock()
		defer x.mu.Unlock()
		return errors.Join(fmt.Errorf("write index %s: %w", x.dir, err), x.stop())
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.position = b.Position
	if len(b.Pages)+len(b.Removed) > 0 {
		x.version = versions.Add(1)
	}
	return nil
}

// running returns scorch, which it opens again after a failure. x.mu is held.
func (x *Index) running() (bleve.Index, error) {
	if x.closed {
		return nil, ErrClosed
	}
	if x.scorch == nil {
		if err := x.open(); err != nil {
			return nil, fmt.Errorf("open index %s: %w", x.dir, err)
		}
	}
	return x.scorch, nil
}

// Reader returns a view of the index as it is now. The caller must call Close.
func (x *Index) Reader() (*Reader, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s, err := x.running()
	if err != nil {
		return nil, err
	}
	r, err := s.Reader()
	if err != nil {
		return nil, fmt.Errorf("read index %s: %w", x.dir, err)
	}
	snapshot, ok := r.(*scorch.IndexSnapshot)
	if !ok {
		return nil, errors.Join(fmt.Errorf("read index %s: a view is a %T", x.dir, r), r.Close())
	}
	return &Reader{r: r, segments: snapshot.Segments(), stems: &x.stems, version: x.version}, nil
}
