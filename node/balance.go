package node

import (
	"errors"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl/quota"
	"peerd/node/config"
	"peerd/overlay/owner"
	"peerd/store"
)

const (
	// closing is how long before the end of its hours a peer begins to give its
	// work away, and takes no more.
	closing = 10 * time.Minute
	// plainBytes is the size of a page by which a bandwidth is counted in pages
	// before pagesKnown of them have been fetched.
	plainBytes = 100e3
	pagesKnown = 1000
)

// limits say how much this peer wants to do.
func (n *Node) limits(now time.Time) owner.Limits {
	if n.opts.Alone {
		return owner.Limits{}
	}
	size := plainBytes
	if c := n.db.Counters(); c.Fetches >= pagesKnown {
		size = float64(c.Bytes) / float64(c.Fetches)
	}
	return limitsOf(n.opts.Config.Crawl, now, size)
}

// limitsOf are the limits by a configuration; size is that of a page, in bytes.
func limitsOf(c config.Crawl, now time.Time, size float64) owner.Limits {
	l := owner.Limits{Pages: float64(c.PagesPerDay), Closed: c.Hours.Wait(now) > 0 || c.Hours.Wait(now.Add(closing)) > 0}
	if c.Bandwidth > 0 {
		day := c.Hours.Length().Seconds()
		if pages := float64(c.Bandwidth) * day / max(size, 1); l.Pages == 0 || pages < l.Pages {
			l.Pages = pages
		}
	}
	return l
}

// takesNothing says of another peer that it has announced to take no subnets now.
func (n *Node) takesNothing(who string) bool {
	id, err := peer.Decode(who)
	if err != nil {
		return false
	}
	b, ok := n.peers.Directory().Get(id)
	return ok && b.Capacity <= 0
}

// quotaOf are the bounds on what is asked of web servers, by a configuration.
func quotaOf(c config.Crawl, db *store.DB) quota.Config {
	return quota.Config{
		Requests: c.PagesPerDay, Bytes: float64(c.Bandwidth), Open: c.Hours.Length(), Wait: c.Hours.Wait,
		Load: func() (at time.Time, ok bool, err error) {
			var ns int64
			err = db.View(func(tx *store.Tx) error { return tx.Meta(metaQuota, &ns) })
			if errors.Is(err, store.ErrNotFound) {
				return at, false, nil
			}
			return time.Unix(0, ns), err == nil, err
		},
		Save: func(at time.Time) error {
			err := db.Update(func(tx *store.Tx) error { return tx.PutMeta(metaQuota, at.UnixNano()) })
			if err != nil {
				return err
			}
			return db.Sync()
		},
	}
}
