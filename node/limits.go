package node

import (
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/crawl/quota"
	"peerd/node/config"
	"peerd/overlay/owner"
	"peerd/store"
)

const (
	// closeEarly is how long before the end of its hours a peer starts to hand its work over and
	// accepts no more.
	closeEarly = 10 * time.Minute
	// assumedPageBytes is the size of a page by which a bandwidth is converted to pages, until
	// minPagesForAverage pages have been fetched.
	assumedPageBytes   = 100e3
	minPagesForAverage = 1000
)

// limits returns the current limits of this peer.
func (n *Node) limits(now time.Time) owner.Limits {
	if n.opts.Alone {
		return owner.Limits{}
	}
	size := assumedPageBytes
	if c := n.db.Counters(); c.Fetches >= minPagesForAverage {
		size = float64(c.Bytes) / float64(c.Fetches)
	}
	l := workLimits(n.crawlSettings(), now, size)
	l.Closed = l.Closed || n.pause.wait(now) > 0 || n.untilVolume(now) > 0
	return l
}

// workLimits returns the limits by a configuration; size is that of a page in bytes.
func workLimits(c config.Crawl, now time.Time, size float64) owner.Limits {
	l := owner.Limits{Pages: float64(c.PagesPerDay), Closed: c.Hours.Wait(now) > 0 ||
		c.Hours.Wait(now.Add(closeEarly)) > 0}
	if c.Bandwidth > 0 {
		day := c.Hours.Length().Seconds()
		if pages := float64(c.Bandwidth) * day / max(size, 1); l.Pages == 0 || pages < l.Pages {
			l.Pages = pages
		}
	}
	return l
}

// AtCapacity reports whether another peer has announced that it accepts no subnets now, or is
// doubted because it seems to report pages that it has not fetched.
func (o ownerNode) AtCapacity(who string) bool {
	n := o.n
	if n.crawler != nil && n.crawler.Doubts(who) {
		return true
	}
	id, err := peer.Decode(who)
	if err != nil {
		return false
	}
	b, ok := n.peers.Directory().Get(id)
	return ok && b.Capacity <= 0
}

// quotaConfig returns the limits on requests to web servers by a configuration, beside the times at
// which there are none at all.
func quotaConfig(
	c config.Crawl, untilOpen func(time.Time) time.Duration, db *store.DB,
) quota.Config {
	return quota.Config{
		Requests: c.PagesPerDay, Bytes: float64(c.Bandwidth), OpenPerDay: c.Hours.Length(),
		UntilOpen: untilOpen, Store: quotaStore{db},
	}
}

// quotaStore is the quota.Store of a peer.
type quotaStore struct{ db *store.DB }

func (s quotaStore) Load() (at time.Time, ok bool, err error) {
	var ns int64
	err = s.db.Meta(metaQuota, &ns)
	return time.Unix(0, ns), err == nil && ns != 0, err
}

func (s quotaStore) Save(at time.Time) error {
	if err := s.db.PutMeta(metaQuota, at.UnixNano()); err != nil {
		return err
	}
	return s.db.Sync()
}
