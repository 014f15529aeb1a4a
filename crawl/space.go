package crawl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/internal/backoff"
	"peerd/store"
)

// ErrNoSpace is wrapped by the error of Run if Config.StopWhenFull is set and the disk, the
// store or the archive is full.
var ErrNoSpace = errors.New("crawl: no space left")

// spaceWait is how long fetching pauses without free space, and the minimum wait of a host
// after its answer did not fit into the store.
const spaceWait = 10 * time.Second

// checkSpace returns an error while there is no space for what would be fetched. A store
// that was full counts as full until it accepts a write.
func (c *Crawler) checkSpace() error {
	if err := c.cfg.Delegate.CheckSpace(); err != nil {
		return err
	}
	if !c.storeFull.Load() {
		return nil
	}
	if err := c.cfg.DB.Probe(); errors.Is(err, store.ErrNoSpace) {
		return err
	}
	c.storeFull.Store(false) // any other error ends Run at the next write
	return nil
}

// hasSpace reports whether there is space for what would be fetched.
func (c *Crawler) hasSpace() bool { return c.checkSpace() == nil }

// handleStoreFull handles the error of a step. A full store ends the crawl only with
// StopWhenFull; otherwise fetching pauses until there is space.
func (c *Crawler) handleStoreFull(err error) error {
	if !errors.Is(err, store.ErrNoSpace) {
		return err
	}
	c.storeFull.Store(true)
	if c.cfg.StopWhenFull {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	c.logNoSpace(err)
	return nil
}

// hostWait returns how long to leave a host alone after an answer: wait, or longer if the
// result did not fit into the store. In that case its entry is still queued.
func (c *Crawler) hostWait(wait time.Duration, err error) time.Duration {
	if errors.Is(err, store.ErrNoSpace) {
		return max(wait, c.spaceWait)
	}
	return wait
}

// forgetUnstored discards what is remembered about a page if err means that it did not fit
// into the store.
func (c *Crawler) forgetUnstored(u store.URL, err error) {
	if !errors.Is(err, store.ErrNoSpace) {
		return
	}
	c.storeFull.Store(true)
	c.contents.forget(u.Host())
}

// waitForSpace waits until there is space. With StopWhenFull it fails with ErrNoSpace
// instead.
func (c *Crawler) waitForSpace(ctx context.Context) error {
	for ctx.Err() == nil {
		err := c.checkSpace()
		if err == nil {
			return nil
		}
		if c.cfg.StopWhenFull {
			return fmt.Errorf("%w: %w", ErrNoSpace, err)
		}
		c.logNoSpace(err)
		_ = backoff.Sleep(ctx, c.spaceWait)
	}
	return ctx.Err()
}

// logNoSpace logs the lack of space, once for all waiting workers.
func (c *Crawler) logNoSpace(err error) {
	now, last := time.Now(), c.loggedNoSpace.Load()
	if last != nil && now.Sub(*last) < c.spaceWait/2 ||
		!c.loggedNoSpace.CompareAndSwap(last, &now) {
		return
	}
	c.log.Error("paused fetching: no space left", "err", err, "retry_in", c.spaceWait)
}
