package crawl

import (
	"context"
	"time"

	"peerd/crawl/quota"
	"peerd/internal/backoff"
)

// quotaWait is how long a worker sleeps after another worker used up the last request that
// the quota allowed.
const quotaWait = 10 * time.Millisecond

// acquire returns a ticket for a request that is sent now. If ok is false, no request may
// be sent and acquire has slept for quotaWait; the caller must return its job. The error
// comes from the store.
func (c *Crawler) acquire(ctx context.Context) (t quota.Ticket, ok bool, err error) {
	if t, ok, err = c.cfg.Quota.Acquire(time.Now()); ok || err != nil {
		return t, ok, err
	}
	_ = backoff.Sleep(ctx, quotaWait)
	return t, false, nil
}
