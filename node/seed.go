package node

import (
	"context"
	"time"

	"peerd/crawl/canon"
	"peerd/node/admin"
	"peerd/store"
)

// Seed puts URLs into the crawl. What it counts as accepted is on disk.
func (n *Node) Seed(_ context.Context, urls []string) (admin.SeedResult, error) {
	var r admin.SeedResult
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

// plantSeeds puts the profile's seeds into the crawl, once at the start.
func (n *Node) plantSeeds(ctx context.Context) error {
	if len(n.opts.Profile.Seeds) == 0 || n.opts.Alone {
		return nil // a one-shot crawl has planted them before
	}
	_, err := n.Seed(ctx, n.opts.Profile.Seeds)
	return err
}
