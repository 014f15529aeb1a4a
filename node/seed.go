package node

import (
	"context"
	"errors"
	"slices"
	"time"

	"peerd/crawl/canon"
	"peerd/internal/backoff"
	"peerd/node/admin"
	"peerd/store"
)

// Seed adds URLs to the crawl. Accepted URLs are on disk when it returns.
func (n *Node) Seed(_ context.Context, urls []string) (admin.SeedResult, error) {
	return n.addURLs(urls, store.KindPage)
}

// Changed adds URLs of pages that have changed: the owners of their hosts fetch them again, if the
// robots.txt of the site names this peer or it is the owner itself.
func (n *Node) Changed(_ context.Context, urls []string) (admin.SeedResult, error) {
	return n.addURLs(urls, store.KindChanged)
}

func (n *Node) addURLs(urls []string, kind store.Kind) (admin.SeedResult, error) {
	var r admin.SeedResult
	if n.leaving.started() {
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
		known := false
		if !kind.Changed() {
			if known, err = n.urlKnown(u); err != nil {
				return r, err
			}
		}
		if known || seen[u] {
			r.Known++
			continue
		}
		seen[u] = true
		r.Accepted++
		fresh = append(fresh, store.Pending{URL: u, Found: now, Kind: kind})
	}
	if err := n.crawler.Route(fresh); err != nil {
		return r, err
	}
	return r, n.db.Sync()
}

// urlKnown reports whether this peer has seen a URL before.
func (n *Node) urlKnown(u store.URL) (known bool, err error) {
	err = n.db.View(func(tx *store.Tx) error {
		if known, err = tx.Seen(u); err != nil || known {
			return err
		}
		known, err = tx.HasPending(u)
		return err
	})
	return known || n.outbox.Sent(u), err
}

// seedRetry is the time after which the seeds are added again if the disk was full.
const seedRetry = 10 * time.Second

// enqueueSeeds adds the seeds of the profile to the crawl, once at the start, or as soon as
// there is free space.
func (n *Node) enqueueSeeds(ctx context.Context) error {
	if len(n.opts.Profile.Seeds) == 0 || n.opts.Alone {
		return nil // a one-shot crawl adds them itself
	}
	for {
		r, err := n.Seed(ctx, n.opts.Profile.Seeds)
		if errors.Is(err, admin.ErrStopping) {
			return nil
		}
		for _, x := range slices.Concat(r.Invalid, r.OutOfScope) {
			n.log.Warn("left out a seed of the profile", "url", x.URL, "err", x.Reason)
		}
		if !store.IsNoSpace(err) {
			return err
		}
		n.log.Error("failed to add the seeds of the profile: the disk is full",
			"err", err, "retry_in", seedRetry)
		if backoff.Sleep(ctx, seedRetry) != nil {
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
}
