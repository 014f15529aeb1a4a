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
	mu   sync.Mutex
	at   time.Time
	full error
}

// archiveMargin is how much of its quota the archive must have left for a page
// to be fetched: more than the answers that are under way may need.
const archiveMargin = 64 << 20

// room says why nothing may be fetched for want of room.
func (n *Node) room() error {
	n.disk.mu.Lock()
	defer n.disk.mu.Unlock()
	if now := time.Now(); now.Sub(n.disk.at) >= time.Second {
		n.disk.at, n.disk.full = now, n.measureRoom()
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
	if used := n.archive.Stats().Bytes; used+min(archiveMargin, quota/4) > quota {
		return fmt.Errorf("%w: the archive has %d bytes of %d (archive.quota)", errRoom, used, quota)
	}
	return nil
}
