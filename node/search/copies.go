package search

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/overlay/mirror"
	"peerd/overlay/search"
	"peerd/store/index"
)

const (
	// copiesEvery is how often Copies looks for peers that do not answer.
	copiesEvery = 5 * time.Second
	// minIndex is how large the index of a copy may always be. A larger one must be smaller than
	// the copy. Bytes.
	minIndex = 64 << 20
)

// Copies indexes the copies of the archives of peers that do not answer, and has them searched.
// The index of a copy is kept when its owner is back, and goes on from there when it is absent
// again. Its fields are set before its methods are called.
type Copies struct {
	Keeper *mirror.Keeper
	Agent  string // the crawler's product token
	// Space says whether the disk has enough free space.
	Space  mirror.Space
	Logger *slog.Logger

	searches sync.RWMutex // held for reading by searches, so that no index is closed meanwhile
	mu       sync.Mutex
	open     map[peer.ID]*openCopy
}

// openCopy is a copy with an index.
type openCopy struct {
	*search.Local
	dir     string
	indexed int64 // bytes of the copy
	ready   bool  // all of them are indexed
}

// Use implements search.Copies. A copy of a peer that is not absent for certain has no index: if
// the peer does not answer a search either, the result is partial.
func (c *Copies) Use() (all []search.Copy) {
	c.searches.RLock()
	lost := c.Keeper.Lost()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range lost[:min(len(lost), search.MaxCopies)] {
		v := search.Copy{Owner: m.Owner, Naming: m.Naming(), Whole: m.Whole()}
		o := c.open[m.Owner]
		if o != nil && o.ready && o.dir == m.IndexDir() && o.indexed == m.Bytes() {
			v.Index = o.Local
		}
		all = append(all, v)
	}
	return all
}

// Done implements search.Copies.
func (c *Copies) Done() { c.searches.RUnlock() }

// Run indexes the copies until ctx ends. A failure is logged and tried again later.
func (c *Copies) Run(ctx context.Context) error {
	failed := map[peer.ID]time.Time{}
	for {
		c.look(ctx, failed)
		if backoff.Sleep(ctx, copiesEvery) != nil {
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
}

// look indexes the copies of peers that do not answer, and closes the indexes of others. failed
// has the times of the last failures.
func (c *Copies) look(ctx context.Context, failed map[peer.ID]time.Time) {
	dirs := map[peer.ID]string{}
	absent := c.Keeper.Absent()
	for _, m := range absent {
		dirs[m.Owner] = m.IndexDir()
	}
	c.closeBut(dirs)
	for _, m := range absent {
		if time.Since(failed[m.Owner]) < retryEvery {
			continue
		}
		delete(failed, m.Owner)
		if err := c.catchUp(ctx, m, dirs[m.Owner]); err != nil && ctx.Err() == nil {
			c.Logger.Warn("failed to index the copy of an archive", "peer", m.Owner,
				"retry_in", retryEvery, "err", err)
			failed[m.Owner] = time.Now()
		}
	}
}

// Close closes the indexes. Run and all searches must have ended.
func (c *Copies) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, o := range c.open {
		errs = append(errs, o.Index.Close())
	}
	c.open = nil
	return errors.Join(errs...)
}

// closeBut closes the indexes that are not in the folders, unless searches run.
func (c *Copies) closeBut(dirs map[peer.ID]string) {
	if !c.searches.TryLock() {
		return
	}
	defer c.searches.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for owner, o := range c.open {
		if dirs[owner] == o.dir {
			continue
		}
		delete(c.open, owner)
		if err := o.Index.Close(); err != nil {
			c.Logger.Warn("failed to close the index of a copy", "peer", owner, "err", err)
		}
	}
}

// catchUp indexes what is in a copy and not in its index.
func (c *Copies) catchUp(ctx context.Context, m *mirror.Copy, dir string) error {
	c.mu.Lock()
	o := c.open[m.Owner]
	c.mu.Unlock()
	bytes := m.Bytes()
	if o != nil && (o.dir != dir || o.ready && o.indexed == bytes) {
		return nil // searches use the index of what was copied before, or it has everything
	}
	archive, err := m.Archive()
	if err != nil {
		return err
	}
	if o == nil {
		if err := m.RemoveOldIndexes(); err != nil {
			return err
		}
		x, err := index.Open(dir)
		if err != nil {
			return err
		}
		o = &openCopy{Local: &search.Local{Index: x, Text: Texter(archive, c.Agent)}, dir: dir}
		c.mu.Lock()
		if c.open == nil {
			c.open = map[peer.ID]*openCopy{}
		}
		c.open[m.Owner] = o
		c.mu.Unlock()
	}
	began := time.Now()
	pages, err := (&Indexer{Index: o.Index, Archive: archive, Agent: c.Agent, Logger: c.Logger,
		CheckSpace: func() error { return c.checkSpace(dir, bytes) }}).CatchUp(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	o.indexed, o.ready = bytes, true
	c.Logger.Info("answered for an absent peer from now on", "peer", m.Owner, "bytes", bytes,
		"pages_indexed", pages, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// checkSpace returns an error if the index of a copy must not grow.
func (c *Copies) checkSpace(dir string, copied int64) error {
	var size int64
	// Files that are gone meanwhile have no size.
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if info, err := d.Info(); err == nil {
				size += info.Size()
			}
		}
		return nil
	})
	if err == nil && size > max(copied, minIndex) {
		err = fmt.Errorf("the index has %d bytes for a copy of %d", size, copied)
	}
	return errors.Join(err, c.Space.CheckSpace())
}
