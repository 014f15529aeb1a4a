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

// A diff is what a transaction does to one key.
type diff struct {
	val []byte
	del bool
}

// Disk is what an engine in memory leaves behind when its process ends, and
// the handle by which a simulation makes it fail. One process at a time has it
// open. All methods may be called at once, and none waits for anything; a Disk
// whose engine was opened, or which was paused, within a bubble of
// testing/synctest belongs there.
//
// A commit is in the page cache: it survives Kill. Sync and Close put it on the
// platter, where a power cut finds it (Crash, Lose). Of what is in the cache
// the oldest is written back when it is more than cacheMost.
type Disk struct {
	mu     sync.Mutex // held for work in memory only, never while anything waits
	live   *tree      // all that was committed
	view   *tree      // a copy of live for readers; nil: it is out of date
	synced *tree      // what is on the platter; never changed, but replaced
	cache  []commit   // what was committed after that, in order
	cached int64      // its bytes
	proc   *memory    // who has it open
	halt   chan struct{}
	full   bool
	delays Delays
}

// A commit in the page cache.
type commit struct {
	diffs *diffs
	bytes int64
}

// cacheMost bounds what was committed and not synced, in bytes.
const cacheMost = 32 << 20

// Delays makes a disk slow. A crash in the middle of a commit or a sync may
// find it done or not.
type Delays struct {
	Begin  time.Duration // of each transaction
	Commit time.Duration // of each that has written
	Sync   time.Duration
}

// NewDisk returns an empty disk.
func NewDisk() *Disk { return &Disk{live: newTree(), synced: newTree()} }

// newTree makes nodes small: a commit copies those on its way that a view sees.
func newTree() *tree { return btree.NewMap[string, []byte](8) }

// Open opens what is on the disk. It fails with ErrLocked if a process has it
// open that has neither closed it nor been ended, or if o is not sensible.
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
	d.proc = &memory{d: d, limits: l, threshold: o.Threshold, dead: make(chan struct{})}
	return d.proc, nil
}

// Kill ends the process as kill -9 does: all that was committed is still there.
func (d *Disk) Kill() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end()
}

// Crash cuts the power: what was synced is there, and of the commits after it
// the first few. How many is chosen by the seed; for one seed in four it is
// none. It says how many were kept and lost.
func (d *Disk) Crash(seed uint64) (kept, lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rand.New(rand.NewPCG(seed, 0x6b76))
	if r.IntN(4) > 0 {
		kept = r.IntN(len(d.cache) + 1)
	}
	lost = len(d.cache) - kept
	d.cut(kept)
	return kept, lost
}

// Lose cuts the power, and nothing is there but what was synced. It says how
// many commits were lost.
func (d *Disk) Lose() (lost int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	lost = len(d.cache)
	d.cut(0)
	return lost
}

// Wipe ends the process and takes the disk away; there is an empty one in its
// place.
func (d *Disk) Wipe() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.synced, d.cache = newTree(), nil
	d.cut(0)
}

// SetFull lets every commit that writes something fail with ENOSPC, until it
// is unset. What is there can be read and synced.
func (d *Disk) SetFull(full bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.full = full
}

// SetDelays makes the disk as slow as that.
func (d *Disk) SetDelays(s Delays) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delays = s
}

// Pause lets every call of the process wait, each read of a transaction
// included, until Resume or the process's end. Another Pause does nothing.
func (d *Disk) Pause() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.halt == nil {
		d.halt = make(chan struct{})
	}
}

// Resume lets them go on.
func (d *Disk) Resume() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resume()
}

// Unsynced says how many commits a power cut would put at risk.
func (d *Disk) Unsynced() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.cache)
}

func (d *Disk) resume() {
	if d.halt != nil {
		close(d.halt)
		d.halt = nil
	}
}

// end ends the process, also one that is paused.
func (d *Disk) end() {
	if d.proc != nil {
		close(d.proc.dead)
		d.proc = nil
	}
	d.resume()
}

// cut ends the process and keeps what was synced and the first n commits after.
func (d *Disk) cut(n int) {
	d.end()
	d.live = d.synced.Copy()
	for _, c := range d.cache[:n] {
		c.apply(d.live)
	}
	d.view = nil
	d.sync()
}

// sync puts everything on the platter.
func (d *Disk) sync() {
	d.synced, d.cache, d.cached = d.live.Copy(), nil, 0
}

// commit puts c into the page cache.
func (d *Disk) commit(c commit) {
	c.apply(d.live)
	d.view = nil
	d.cache = append(d.cache, c)
	if d.cached += c.bytes; d.cached > cacheMost {
		d.writeBack()
	}
}

// writeBack moves the older half of the cache onto the platter.
func (d *Disk) writeBack() {
	s := d.synced.Copy()
	for d.cached > cacheMost/2 {
		d.cache[0].apply(s)
		d.cached -= d.cache[0].bytes
		d.cache = d.cache[1:]
	}
	d.synced = s
}

// snapshot returns the state as it is, for reading.
func (d *Disk) snapshot() *tree {
	if d.view == nil {
		d.view = d.live.Copy()
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
