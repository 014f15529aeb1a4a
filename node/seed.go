package node

import (
	"context"
	"errors"
	"time"

	"peerd/crawl/canon"
	"peerd/node/admin"
	"peerd/store"
)

// Seed puts URLs into the crawl. What it counts as accepted is on disk.
func (n *Node) Seed(_ context.Context, urls []string) (admin.SeedResult, error) {
	var r admin.SeedResult
	if n.leave.on() {
		return r, admin.ErrStopping
	}
	var fresh []store.Pending
	seen := map[store.URL]bool{}
	now := time.Now()
	for _, raw := range urls {
		u, err := canon.Parse(raw)
		if err != nil {
			r.Invalid = append(r.Invalid, admin.Rejected{URL: raw, Reason: err.Error()})
			continue
		}
		if err := n.scope.Allows(u, 0); err != nil {
			r.OutOfScope = append(r.OutOfScope, admin.Rejected{URL: raw, Reason: err.Error()})
			continue
		}
		known, err := n.known(u)
		if err != nil {
			return r, err
		}
		if known || seen[u] {
			r.Known++
			continue
		}
		seen[u] = true
		r.Accepted++
		fresh = append(fresh, store.Pending{URL: u, Found: now})
	}
	if err := n.crawler.Route(fresh); err != nil {
		return r, err
	}
	return r, n.db.Sync()
}

// known says whether this peer has met a URL before.
func (n *Node) known(u store.URL) (known bool, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		if known, err = tx.Seen(u); err != nil || known {
			return err
		}
		known, err = tx.Waiting(u)
		return err
	})
	return known || n.forwarder.Sent(u), err
}

// plantWait is the wait before seeds are planted again for which there was no room.
const plantWait = 10 * time.Second

// plantSeeds puts the profile's seeds into the crawl, once at the start, or when there
// is room for them.
func (n *Node) plantSeeds(ctx context.Context) error {
	if len(n.opts.Profile.Seeds) == 0 || n.opts.Alone {
		return nil // a one-shot crawl has planted them before
	}
	for {
		_, err := n.Seed(ctx, n.opts.Profile.Seeds)
		if errors.Is(err, admin.ErrStopping) {
			return nil
		}
		if !store.IsFull(err) {
			return err
		}
		n.log.Error("the seeds are not planted: the disk is full", "err", err, "again_in", plantWait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(plantWait):
		}
	}
}
