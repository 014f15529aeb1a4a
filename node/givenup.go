package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"peerd/crawl"
	"peerd/crawl/canon"
	"peerd/internal/order"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/store"
)

// connectivity lists the outcomes of URLs that were given up because their server could not be
// reached, or was not available: a later crawl may fetch them.
var connectivity = []store.Outcome{
	store.OutcomeDNS, store.OutcomeConnect, store.OutcomeTimeout, store.OutcomeReset,
	store.OutcomeTLS, store.OutcomeThrottled, store.OutcomeRobotsUnreachable,
}

// givenUpBatch is the number of records that are read in one transaction.
const givenUpBatch = 1000

// GivenUp yields the URLs that this peer no longer tries to fetch, or those of one host.
func (n *Node) GivenUp(
	ctx context.Context, host string, yield func(admin.GivenUp) error,
) error {
	return eachGivenUp(ctx, n.db, host, yield)
}

// Retry queues URLs again that were given up.
func (n *Node) Retry(ctx context.Context, r admin.RetryRequest) (admin.RetryResult, error) {
	what, err := retried(r)
	if err != nil {
		return admin.RetryResult{}, err
	}
	if n.leaving.started() {
		return admin.RetryResult{}, admin.ErrStopping
	}
	queued, err := n.crawler.Retry(ctx, what)
	if err != nil {
		return admin.RetryResult{Queued: queued}, err
	}
	return admin.RetryResult{Queued: queued}, n.db.Sync()
}

func eachGivenUp(
	ctx context.Context, db *store.DB, host string, yield func(admin.GivenUp) error,
) error {
	if host != "" {
		name, err := HostName(host)
		if err != nil {
			return err
		}
		host = name
	}
	var after []byte
	for more := true; more; {
		var part []store.GivenUp
		err := db.View(func(tx *store.Tx) error {
			return tx.EachGivenUp(host, after, func(g store.GivenUp) (bool, error) {
				part = append(part, g)
				return len(part) < givenUpBatch, nil
			})
		})
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		for _, g := range part {
			if err := yield(givenUpOf(g)); err != nil {
				return err
			}
		}
		if more = len(part) == givenUpBatch; more {
			after = part[len(part)-1].Key
		}
	}
	return nil
}

func givenUpOf(g store.GivenUp) admin.GivenUp {
	return admin.GivenUp{
		URL: string(g.URL), Outcome: g.Outcome.String(), Status: g.Status, Error: g.Error,
		At: g.At, First: g.First, Tries: g.Tries, Depth: g.Depth,
		Connectivity: slices.Contains(connectivity, g.Outcome),
	}
}

// retried returns what a request selects.
func retried(r admin.RetryRequest) (what crawl.Retried, err error) {
	switch {
	case r.URL != "":
		if what.URL, err = canon.Parse(r.URL); err != nil {
			err = fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
		}
	case r.Host != "":
		what.Host, err = HostName(r.Host)
	}
	return what, err
}

// GivenUp yields the URLs that were given up in a home while no peer runs with it.
func GivenUp(
	ctx context.Context, home config.Home, host string, yield func(admin.GivenUp) error,
) error {
	return withStore(home, func(db *store.DB) error { return eachGivenUp(ctx, db, host, yield) })
}

// maxPlannedRetries bounds the requests of Retry that a home holds.
const maxPlannedRetries = 1000

// Retry plans to queue URLs again that were given up, while no peer runs with the home. The next
// peer, or crawl, with the home does so at its start. The result is the number of the URLs.
func Retry(
	ctx context.Context, home config.Home, r admin.RetryRequest,
) (res admin.RetryResult, err error) {
	what, err := retried(r)
	if err != nil {
		return res, err
	}
	host := what.Host
	if what.URL != "" {
		host = what.URL.Host()
	}
	err = withStore(home, func(db *store.DB) error {
		err := eachGivenUp(ctx, db, host, func(g admin.GivenUp) error {
			if what.URL == "" || g.URL == string(what.URL) {
				res.Queued++
			}
			return nil
		})
		if err != nil || res.Queued == 0 {
			return err
		}
		return db.Update(func(tx *store.Tx) error { return planRetry(tx, r) })
	})
	return res, err
}

// planRetry adds a request to those of the home.
func planRetry(tx *store.Tx, r admin.RetryRequest) error {
	var all []admin.RetryRequest
	if err := tx.Meta(metaRetries, &all); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	switch {
	case slices.Contains(all, r):
		return nil
	case r.All:
		all = nil
	case len(all) >= maxPlannedRetries:
		return errors.New("too many retries are planned; use --all")
	}
	return tx.PutMeta(metaRetries, append(all, r))
}

// retryPlanned does what Retry has planned. A full disk is no error: the plan remains.
func (n *Node) retryPlanned() error {
	var all []admin.RetryRequest
	err := n.db.Meta(metaRetries, &all)
	if err == nil && len(all) == 0 {
		return nil
	}
	for _, r := range all {
		if err == nil {
			_, err = n.Retry(context.Background(), r)
		}
	}
	if err == nil {
		err = n.db.PutMeta(metaRetries, []admin.RetryRequest{})
	}
	if store.IsNoSpace(err) {
		n.log.Warn("kept planned retries: the disk is full", "err", err)
		return nil
	}
	return err
}

// withStore opens the store of a home in which no peer runs. It does nothing if there is none.
func withStore(home config.Home, fn func(*store.DB) error) error {
	if _, err := os.Stat(home.StoreDir()); err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil // nothing was ever fetched
		}
		return err
	}
	db, err := store.Open(home.StoreDir(), store.Options{})
	if errors.Is(err, store.ErrLocked) {
		return fmt.Errorf("%w; wait for the end of the crawl there", err)
	}
	if err != nil {
		return err
	}
	return errors.Join(fn(db), db.Close())
}

// A GivenUpGroup is the URLs of a one-shot crawl that were given up with one outcome.
type GivenUpGroup struct {
	Outcome string `json:"outcome"`
	// Connectivity reports whether their servers could not be reached.
	Connectivity bool            `json:"connectivity"`
	URLs         int64           `json:"urls"`
	Examples     []admin.GivenUp `json:"examples"` // the first few
}

// maxExamples is the number of Examples of a GivenUpGroup.
const maxExamples = 3

// groupGivenUp returns the URLs of a store that were given up, the largest group first.
func groupGivenUp(ctx context.Context, db *store.DB) ([]GivenUpGroup, error) {
	groups := map[string]*GivenUpGroup{}
	err := eachGivenUp(ctx, db, "", func(g admin.GivenUp) error {
		all := groups[g.Outcome]
		if all == nil {
			all = &GivenUpGroup{Outcome: g.Outcome, Connectivity: g.Connectivity}
			groups[g.Outcome] = all
		}
		if all.URLs++; len(all.Examples) < maxExamples {
			all.Examples = append(all.Examples, g)
		}
		return nil
	})
	sorted := make([]GivenUpGroup, 0, len(groups))
	for _, g := range groups {
		sorted = append(sorted, *g)
	}
	order.SortFunc(sorted, func(a, b GivenUpGroup) int {
		return cmp.Or(cmp.Compare(b.URLs, a.URLs), strings.Compare(a.Outcome, b.Outcome))
	})
	return sorted, err
}
