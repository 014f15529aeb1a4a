package crawl

import (
	"time"

	"peerd/store"
	"peerd/store/warc"
)

// SetRoomWait makes waits for room short.
func (c *Crawler) SetRoomWait(d time.Duration) { c.roomWait = d }

// SetArchive exchanges the archive while nothing runs.
func (c *Crawler) SetArchive(a *warc.Archive) { c.cfg.Archive = a }

// SaveEvery is how much a Gate may forget.
const SaveEvery = saveEvery

// ForgetErrands ends the memory of answers to revisits.
func (c *Crawler) ForgetErrands() { c.errands.again.Purge() }

// Reported is what is taken of an estimator's report.
func (c *Crawler) Reported(e store.Entry, rep store.FetchReport) []store.Pending {
	return c.reported(e, rep)
}

// MaxHops, MaxLinks and MaxLinkBytes bound what is taken of a page.
const (
	MaxHops      = maxHops
	MaxLinks     = maxLinks
	MaxLinkBytes = maxLinkBytes
)
