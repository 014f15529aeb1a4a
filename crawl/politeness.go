package crawl

import (
	"errors"
	"time"

	"peerd/store"
)

// day is one of UTC's, as store.DayOf counts.
const day = 24 * time.Hour

// lasting is the least wait of a host that is written down, so that it
// outlives a restart.
const lasting = 10 * time.Second

// charge counts n requests to a host of ours, whatever came of them. It returns
// how long the host is to be left alone: wait, or longer if that was the last
// request of the day. Long waits are written down. A host that has left
// meanwhile is charged nothing; nor is one whose charge finds no room.
func (c *Crawler) charge(tx *store.Tx, host string, n int64, wait time.Duration) (time.Duration, error) {
	if c.cfg.HostDay == 0 && wait < lasting {
		return wait, nil
	}
	h, err := tx.Host(host)
	if errors.Is(err, store.ErrNotFound) {
		return wait, nil
	}
	if err != nil {
		return wait, err
	}
	now := time.Now()
	if c.cfg.HostDay > 0 {
		today := store.DayOf(now)
		if h.Day != today {
			h.Day, h.DayCount = today, 0
		}
		if h.DayCount += n; h.DayCount >= c.cfg.HostDay {
			wait = max(wait, now.Truncate(day).Add(day).Sub(now))
		}
	}
	if at := now.Add(wait); wait >= lasting && at.After(h.NextAt) {
		h.NextAt = at
	}
	return wait, nil
}

// chargeAlone is charge in a transaction of its own, if it takes one.
func (c *Crawler) chargeAlone(host string, n int64, wait time.Duration) (hold time.Duration, err error) {
	if c.cfg.HostDay == 0 && wait < lasting {
		return wait, nil
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		hold, err = c.charge(tx, host, n, wait)
		return err
	})
	return c.held(max(hold, wait), err), err
}
