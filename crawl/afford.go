package crawl

import (
	"context"
	"time"

	"peerd/crawl/quota"
)

// spentWait is how long a worker rests that came too late for the last request
// that the quota lets in now.
const spentWait = 10 * time.Millisecond

// afford returns the ticket for a request that is sent now. If none may be, the job
// for which it was is to be given back; then the worker has rested a moment. The
// error is one of the store.
func (c *Crawler) afford(ctx context.Context) (t quota.Ticket, ok bool, err error) {
	if t, ok, err = c.cfg.Quota.Take(time.Now()); ok || err != nil {
		return t, ok, err
	}
	rest := time.NewTimer(spentWait)
	defer rest.Stop()
	select {
	case <-ctx.Done():
	case <-rest.C:
	}
	return t, false, nil
}
