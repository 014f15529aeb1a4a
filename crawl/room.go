package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/store"
)

// ErrFull is wrapped by the error of Run when Config.StopWhenFull is set and
// there is no room for what would be fetched.
var ErrFull = errors.New("crawl: no room")

// roomWait is how long nothing is fetched when there is no room, and how long at
// least a host is left alone whose answer found none in the store.
const roomWait = 10 * time.Second

// noRoom says why nothing may be fetched for want of room; nil when there is
// some. A store that was full counts as full until it has taken a write: nobody
// but the store itself knows how much it needs.
func (c *Crawler) noRoom() error {
	if c.cfg.Room != nil {
		if err := c.cfg.Room(); err != nil {
			return err
		}
	}
	if !c.stalled.Load() {
		return nil
	}
	err := c.cfg.DB.Batch(func(tx *store.Tx) error {
		tx.Count(store.Counters{}) // writes the counters as they are
		return nil
	})
	if errors.Is(err, store.ErrFull) {
		return err
	}
	c.stalled.Store(false) // any other error ends Run at the next write
	return nil
}

// stall takes the error of a step. That the store is full ends the crawl only if
// it is to end then; else nothing is fetched any more until there is room.
func (c *Crawler) stall(err error) error {
	if !errors.Is(err, store.ErrFull) {
		return err
	}
	c.stalled.Store(true)
	if c.cfg.StopWhenFull {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	c.complain(err)
	return nil
}

// held is how long a host is left alone after an answer: wait, or longer if what
// came of it found no room. Then its entry is still queued, and comes again.
func (c *Crawler) held(wait time.Duration, err error) time.Duration {
	if errors.Is(err, store.ErrFull) {
		return max(wait, c.roomWait)
	}
	return wait
}

// unstored takes back what is remembered of a page that err kept out of the
// store.
func (c *Crawler) unstored(u store.URL, err error) {
	if !errors.Is(err, store.ErrFull) {
		return
	}
	c.stalled.Store(true)
	c.contents.forget(u.Host())
}

// room waits until there is room for what would be fetched, or fails with
// ErrFull if the crawl is to stop then.
func (c *Crawler) room(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.noRoom()
		if err == nil {
			return nil
		}
		if c.cfg.StopWhenFull {
			return fmt.Errorf("%w: %w", ErrFull, err)
		}
		c.complain(err)
		c.rest(ctx)
	}
	return ctx.Err()
}

// rest waits for room that may come.
func (c *Crawler) rest(ctx context.Context) {
	t := time.NewTimer(c.roomWait)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// complain logs that there is no room, once for all workers that wait for it.
func (c *Crawler) complain(err error) {
	now, last := time.Now(), c.complained.Load()
	if last != nil && now.Sub(*last) < c.roomWait/2 || !c.complained.CompareAndSwap(last, &now) {
		return
	}
	c.log.Error("nothing is fetched: there is no room", "err", err, "again_in", c.roomWait)
}
