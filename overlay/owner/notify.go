package owner

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/replica"
)

// An owner that runs but does not keep a copy here up to date may have lost its disk. If
// no peer has URLs for the subnet the owner does not learn of it: its state exists only
// in the copies, and no peer takes over from a peer that is heard. Each peer that keeps
// such a copy therefore notifies the owner, which checks whether the subnet is its own
// (unsettled.go, restore.go). If that does not help, the owner may have yielded to a
// lease of ours of which we do not know that it stands, because the takeover was
// interrupted: we check, too. An owner that could not reach us has finally recreated the
// subnet: then what it may lack is salvaged from the copy.

// notifyEvery is the wait between two notifications about one subnet.
const notifyEvery = 30 * time.Second

// notification is the state of one copy.
type notification struct {
	since time.Time // the first
	next  time.Time // not before
}

// toNotify returns the tasks that notify owners of copies here. Only Run calls it.
func (f *failover) toNotify(now time.Time) (tasks []func(context.Context)) {
	if f.draining.Load() {
		return nil
	}
	missed := map[peer.ID][]netip.Prefix{}
	kept := map[netip.Prefix]notification{}
	for _, h := range f.cfg.Replicas.Copies() {
		since := h.Heard
		if since.Before(f.started) {
			since = f.started
		}
		if now.Sub(since) <= f.cfg.Times.Lost ||
			f.silence(h.Owner, now) > f.cfg.Times.Silence {
			continue
		}
		r, again := f.notified[h.Subnet]
		switch {
		case !again:
			r.since = now
		case now.Before(r.next):
			kept[h.Subnet] = r
			continue
		case now.Sub(r.since) > f.cfg.Times.Recreate*5/4:
			f.salvager.markOrphanedCopy(h.Subnet) // the owner has recreated it, or does not need it
			continue
		case h.Complete:
			f.resume(h.Subnet, looks)
		}
		r.next = now.Add(notifyEvery)
		kept[h.Subnet] = r
		missed[h.Owner] = append(missed[h.Owner], h.Subnet)
	}
	f.notified = kept
	for owner, all := range missed {
		tasks = append(tasks, func(ctx context.Context) {
			for some := range slices.Chunk(all, replica.MaxQuery) {
				if err := f.cfg.Replicas.ReportCopies(ctx, owner, some); err != nil {
					f.log.Debug("failed to notify owner of copies", "owner", owner,
						"err", err)
					return
				}
			}
		})
	}
	return tasks
}
