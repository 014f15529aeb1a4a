package node

import (
	"context"

	"peerd/store"
)

// refetchLost queues pages again that are missing in the archive after a power failure. After the
// end of a process nothing is missing, but only a look at all pages can tell.
func (n *Node) refetchLost(ctx context.Context) error {
	if n.archive == nil || len(n.archive.Repaired()) == 0 {
		return nil
	}
	found, queued, err := n.crawler.Refetch(ctx, func(at store.Location) bool {
		end, ok := n.archive.Repaired()[at.File]
		return ok && at.Offset+at.Length > end
	})
	if found > 0 {
		n.log.Warn("found pages that a power failure removed from the archive",
			"pages", found, "queued", queued)
	}
	if store.IsNoSpace(err) {
		n.log.Error("failed to queue pages again: the disk is full", "err", err)
		err = nil
	}
	if ctx.Err() != nil {
		err = nil
	}
	return err
}
