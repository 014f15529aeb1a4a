package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"peerd/crawl/ping"
	"peerd/node/sitepage"
	"peerd/store"
)

// errNotCrawled means that a ping is about a site that no peer crawls.
var errNotCrawled = errors.New("no peer of this network crawls the site")

// Ping passes notices of one host on to the owner of its subnet, or notes them if that is this
// peer. They are on disk when it returns. A ping is no reason to begin to crawl a site.
func (v visited) Ping(ctx context.Context, notices []ping.Notice) error {
	n := v.n
	if !n.opts.Profile.Revisit.Enabled {
		return fmt.Errorf("%w: this network does not visit pages again", sitepage.ErrRefused)
	}
	waiting := n.outbox.Stats()
	if n.leaving.started() || waiting.Outbox+waiting.Unclaimed > maxPendingURLs/10 {
		// Beyond the whole limit this peer would stop to fetch, which no stranger may cause.
		return errors.New("this peer takes no URLs at the moment")
	}
	found := make([]store.Pending, len(notices))
	now := time.Now()
	for i, x := range notices {
		if err := n.scope.Allows(x.Page, 0); err != nil {
			return fmt.Errorf("%w: %w", sitepage.ErrRefused, err)
		}
		found[i] = store.Pending{URL: x.URL(), Found: now, Kind: store.KindPinged}
	}
	host := notices[0].Page.Host()
	site, err := v.Site(ctx, host)
	if err != nil {
		return err
	}
	if site.Owner == "" || site.Self && !n.frontier.Owns(host) {
		return fmt.Errorf("%w: %w", sitepage.ErrRefused, errNotCrawled)
	}
	if err := n.crawler.Route(found); err != nil {
		return err
	}
	return n.db.Sync()
}
