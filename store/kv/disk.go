package kv

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/tidwall/btree"
)

type (
	tree  = btree.Map[string, []byte]
	diffs = btree.Map[string, diff]
)

// diff is the change of one key by a transaction.
type diff struct {
	val []byte
	del bool
}

// Disk is the storage of an in-memory engine. It outlives the simulated process that has
// it open, at most one at a time, and simulates failures. Its methods are safe for
// concurrent use and do not block. A Disk that was opened or paused in a testing/synctest
// bubble belongs to that bubble.
//
// A commit goes to a simulated page cache and survives Kill. Sync and Close write the
// cache to stable storage, which survives a power failure (Crash). If the cache
// exceeds maxUnsynced, its oldest commits are written back.
type Disk struct {
	mu            sync.Mutex    // never held while waiting
	committed     *tree         // all commits
	view          *tree         // copy of committed for readers; nil if out of date
	synced        *tree         // stable storage; replaced, never changed
	unsynced      []commit      // page cache: commits not in synced, in order
	unsyncedBytes int64         // size of unsynced
	proc          *memoryEngine // the process that has the disk open
	paused        chan struct{} // closed by Resume; nil if not paused
	full          bool
	delays        Delays
	changed       chan struct{} // closed when delays change; nil if no call waits
}

// commit is a commit in the page cache.
type commit struct {
	diffs *diffs
	bytes int64
}

// maxUnsynced is the maximum size of the page cache in bytes.
const maxUnsynced = 32 << 20

// Delays are the simulated latencies of a disk. A crash during a commit or sync happens
// before or after its effect.
type Delays struct {
	Begin  time.Duration // of each transaction
	Commit time.Duration // of each transaction with writes
	Sync   time.Duration
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{committed: newTree(), synced: newTree()} }

// newTree uses small nodes: if a reader holds a view, a commit copies the nodes it changes.
func newTree() *tree { return btree.NewMap[string, []byte](8) }

// Open opens the store on the disk. The error is ErrLocked if a process has it open, or
// says what is wrong with o.
func (d *Disk) Open(o Options) (Engine, error) {
	l, err := limitsOf(o)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.proc != nil {
		return nil, ErrLocked
	}
	d.proc = &memoryEngine{d: d, limits: l, threshold: o.Threshold, ended: make(chan struct{})}
	return d.proc, nil
}

// Kill ends the process like kill -9. All commits survive.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

// Crash simulates a power failure. Synced data survives, and a random number of the first
// commits after it, chosen by seed; for one seed in four it is zero. Crash returns how
// many of these commits survive and how many are lost.
func (d *Disk) Crash(seed uint64) (kept, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, 0x6b76))
	if r.IntN(4) > 0 {
		kept = r.IntN(len(d.unsynced) + 1)
	}
	lost = len(d.unsynced) - kept
	d.powerOff(kept)
	return kept, lost
}

// Wipe ends the process and erases the disk.
func (d *Disk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced, d.unsynced = newTree(), nil
	d.powerOff(0)
}

// SetFull sets whether the disk is full: then every commit with writes fails with ENOSPC.
// Data can still be read and synced.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// SetDelays sets the latencies of the disk. Delays that have begun end.
func (d *Disk) SetDelays(s Delays) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delays = s
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// Pause blocks every call of the process, also reads within a transaction, until Resume
// or the end of the process. A second call does nothing.
func (d *Disk) Pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.paused == nil {
		d.paused = make(chan struct{})
	}
}

// Resume ends a pause.
func (d *Disk) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resume()
}

func (d *Disk) resume() {
	if d.paused != nil {
		close(d.paused)
		d.paused = nil
	}
}

// end ends the process, even if it is paused.
func (d *Disk) end() {
	if d.proc != nil {
		close(d.proc.ended)
		d.proc = nil
	}
	d.resume()
}

// powerOff ends the process and keeps synced data and the first n commits after it.
func (d *Disk) powerOff(n int) {
	d.end()
	d.committed = d.synced.Copy()
	for _, c := range d.unsynced[:n] {
		c.apply(d.committed)
	}
	d.view = nil
	d.sync()
}

// sync writes the page cache to stable storage.
func (d *Disk) sync() {
	d.synced, d.unsynced, d.unsyncedBytes = d.committed.Copy(), nil, 0
}

// commit adds c to the page cache.
func (d *Disk) commit(c commit) {
	c.apply(d.committed)
	d.view = nil
	d.unsynced = append(d.unsynced, c)
	if d.unsyncedBytes += c.bytes; d.unsyncedBytes > maxUnsynced {
		d.writeBack()
	}
}

// writeBack writes the older half of the page cache to stable storage.
func (d *Disk) writeBack() {
	s := d.synced.Copy()
	for d.unsyncedBytes > maxUnsynced/2 {
		d.unsynced[0].apply(s)
		d.unsyncedBytes -= d.unsynced[0].bytes
		d.unsynced = d.unsynced[1:]
	}
	d.synced = s
}

// snapshot returns the present state for readers.
func (d *Disk) snapshot() *tree {
	if d.view == nil {
		d.view = d.committed.Copy()
	}
	return d.view
}

func (c commit) apply(t *tree) {
	c.diffs.Scan(func(key string, x diff) bool {
		if x.del {
			t.Delete(key)
		} else {
			t.Set(key, x.val)
		}
		return true
	})
}
