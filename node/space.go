package node

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"peerd/store/warc"
)

// errNoSpace is wrapped by errors about missing free space.
var errNoSpace = errors.New("no space")

// spaceCache caches the result of measureSpace for a second.
type spaceCache struct {
	mu      sync.Mutex
	at      time.Time
	refused int64 // responses that did not fit into the archive
	err     error
}

const (
	// archiveMargin is the part of its quota that the archive must have left for a page to be
	// fetched. It is larger than the responses that may be under way, and than the largest
	// sitemap.
	archiveMargin = 64 << 20
	// archiveSlack bounds the size of a response without its body.
	archiveSlack = 2 << 20
)

// checkSpace returns why nothing may be fetched: the disk has too little free space, or too many
// URLs are pending for other peers. The latter does not apply to a network of one peer.
func (n *Node) checkSpace() error {
	if !n.opts.Alone && n.outbox.OverLimit() {
		return fmt.Errorf("%w: more than %d URLs are pending for other peers",
			errNoSpace, maxPendingURLs)
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	var refused int64
	if n.archive != nil {
		refused = n.archive.Stats().Refused
	}
	if now := time.Now(); now.Sub(n.disk.at) >= time.Second || refused != n.disk.refused {
		n.disk.at, n.disk.refused, n.disk.err = now, refused, n.measureSpace()
	}
	return n.disk.err
}

// diskSpace is the disk of a home; it implements mirror.Space.
type diskSpace struct {
	dir   string
	least int64 // bytes to be kept free
}

func (n *Node) diskSpace() diskSpace {
	return diskSpace{n.opts.Home.Dir, int64(n.opts.Config.Crawl.MinFree)}
}

// CheckSpace returns an error while the disk has too little free space.
func (d diskSpace) CheckSpace() error {
	free, err := warc.FreeDisk(d.dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", d.dir, err)
	}
	if free < d.least {
		return fmt.Errorf("%w: %s has %d bytes free, want %d (crawl.min_free)", errNoSpace, d.dir,
			free, d.least)
	}
	return nil
}

func (n *Node) measureSpace() error {
	if err := n.diskSpace().CheckSpace(); err != nil {
		return err
	}
	quota := int64(n.opts.Config.Archive.Quota)
	if n.archive == nil || quota == 0 {
		return nil
	}
	s := n.archive.Stats()
	if s.Bytes+n.archiveReserve() > quota {
		s = n.archive.Recount()
	}
	if s.Bytes+n.archiveReserve() > quota {
		return fmt.Errorf(
			"%w: the archive has %d bytes of %d, and the next response may not fit (archive.quota)",
			errNoSpace, s.Bytes, quota)
	}
	return nil
}

// archiveReserve returns the part of its quota that the archive, of which there is one, must have
// left for a page to be fetched. What is larger is cut.
func (n *Node) archiveReserve() int64 {
	page := max(archiveMargin, n.opts.Profile.Limits.MaxBodyBytes+archiveSlack)
	return min(page, int64(n.opts.Config.Archive.Quota)/4)
}
