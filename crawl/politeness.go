package crawl

import (
	"errors"
	"time"

	"peerd/store"
)

// day is a day in UTC, as in store.DayOf.
const day = 24 * time.Hour

// minStoredWait is the shortest wait of a host that is stored to survive a restart.
const minStoredWait = 10 * time.Second

// charge counts n requests to one of our hosts, whatever their result, and stores long
// waits. It returns how long to leave the host alone: wait, or longer if its daily limit is
// reached. A host that is no longer ours is not charged.
func (c *Crawler) charge(
	tx *store.Tx, host string, n int64, wait time.Duration,
) (time.Duration, error) {
	if c.cfg.MaxRequestsPerHostDay == 0 && wait < minStoredWait {
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
	if c.cfg.MaxRequestsPerHostDay > 0 {
		today := store.DayOf(now)
		if h.Day != today {
			h.Day, h.DayCount = today, 0
		}
		if h.DayCount += n; h.DayCount >= c.cfg.MaxRequestsPerHostDay {
			wait = max(wait, now.Truncate(day).Add(day).Sub(now))
		}
	}
	if at := now.Add(wait); wait >= minStoredWait && at.After(h.NextAt) {
		h.NextAt = at
	}
	return wait, nil
}

// chargeSeparately is charge in its own transaction, if one is needed.
func (c *Crawler) chargeSeparately(
	host string, n int64, wait time.Duration,
) (longer time.Duration, err error) {
	if c.cfg.MaxRequestsPerHostDay == 0 && wait < minStoredWait {
		return wait, nil
	}
	err = c.cfg.DB.Batch(func(tx *store.Tx) (err error) {
		longer, err = c.charge(tx, host, n, wait)
		return err
	})
	return c.hostWait(max(longer, wait), err), err
}
