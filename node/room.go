package node

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"peerd/store/warc"
)

// errRoom is wrapped by what says that there is no room.
var errRoom = errors.New("no room")

// diskWatch remembers for a second how much room there is.
type diskWatch struct {
	mu      sync.Mutex
	at      time.Time
	refused int64 // answers that the archive had no room for
	full    error
}

// refused counts the answers that the archive had no room for.
func (n *Node) refused() int64 {
	if n.archive == nil {
		return 0
	}
	return n.archive.Stats().Refused
}

const (
	// archiveMargin is how much of its quota the archive must have left for a
	// page to be fetched: more than the answers that are under way may need, and
	// the largest sitemap.
	archiveMargin = 64 << 20
	// archiveSlack is more than an answer has besides its body.
	archiveSlack = 2 << 20
)

// room says why nothing may be fetched for want of room: on the disk, or because
// too many URLs wait for other peers. A peer alone has nobody to wait for.
func (n *Node) room() error {
	if !n.opts.Alone && n.forwarder.Crowded() {
		return fmt.Errorf("%w: more than %d URLs wait for other peers", errRoom, maxWaiting)
	}
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	refused := n.refused()
	if now := time.Now(); now.Sub(n.disk.at) >= time.Second || refused != n.disk.refused {
		n.disk.at, n.disk.refused, n.disk.full = now, refused, n.measureRoom()
	}
	return n.disk.full
}

func (n *Node) measureRoom() error {
	least := int64(n.opts.Config.Crawl.MinFree)
	free, err := warc.FreeDisk(n.opts.Home.Dir)
	if err != nil {
		return fmt.Errorf("free space of %s: %w", n.opts.Home.Dir, err)
	}
	if free < least {
		return fmt.Errorf("%w: %s has %d bytes free, want %d (crawl.min_free)", errRoom, n.opts.Home.Dir, free, least)
	}
	quota := int64(n.opts.Config.Archive.Quota)
	if n.archive == nil || quota == 0 {
		return nil
	}
	s := n.archive.Stats()
	margin := min(archiveMargin, quota/4)
	if s.Refused > 0 { // the margin was too small, and the answer would be fetched again and again
		margin = max(archiveMargin, n.opts.Profile.Limits.MaxBodyBytes+archiveSlack)
	}
	if s.Bytes+margin > quota {
		return fmt.Errorf("%w: the archive has %d bytes of %d, and the next answer may not fit (archive.quota)", errRoom, s.Bytes, quota)
	}
	return nil
}
