package crawl

import (
	"context"
	"errors"
	"slices"
	"time"

	"peerd/crawl/frontier"
	"peerd/store"
)

// Refetch queues the pages of our hosts again of which the place in the archive is selected by
// lost, as if they had failed once. It returns the number of pages that are lost, including those
// of other owners, and of those that it has queued, also with an error, which comes from the store
// or ctx.
func (c *Crawler) Refetch(
	ctx context.Context, lost func(store.Location) bool,
) (found, queued int, err error) {
	byHost := map[string][]store.Entry{}
	err = c.cfg.DB.View(func(tx *store.Tx) error {
		return tx.Pages(func(p store.Page) error {
			if lost(p.Archive) {
				found++
				h := p.URL.Host()
				byHost[h] = append(byHost[h],
					store.Entry{URL: p.URL, Depth: p.Depth, First: time.Now()})
			}
			return ctx.Err()
		})
	})
	for host, all := range byHost {
		for part := range slices.Chunk(all, maxPlans) {
			if err != nil {
				return found, queued, err
			}
			err = c.cfg.Frontier.Update([]string{host},
				func(_ *store.Tx, push frontier.Push) error {
					for _, e := range part {
						if _, err := push(host, e); err != nil {
							return err
						}
					}
					return nil
				})
			if errors.Is(err, frontier.ErrPaused) || errors.Is(err, frontier.ErrUnknownHost) {
				err = nil // another peer decides about the host, or is about to
				break
			}
			if err == nil {
				queued += len(part)
			}
		}
	}
	return found, queued, err
}
