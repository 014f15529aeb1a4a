package owner

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/shadow"
)

// An owner that is there and does not follow up a copy here may have lost its disk, and
// if nobody has URLs for the subnet nothing tells it so: its work is in the copies
// alone, and nobody takes over from a peer that is heard. So who keeps a copy reminds
// it, and the owner looks whether the subnet is its own (unsettled.go, restore.go). If
// that does not help it may have yielded to a lease of ours that we do not know to
// stand, as the takeover was broken off: we look, too. An owner that could not reach us
// has begun anew in the end: then what it may not know is salvaged from the copy.

// remindEvery is the wait between two reminders of one subnet.
const remindEvery = 30 * time.Second

// reminder is of one copy.
type reminder struct {
	since time.Time // the first
	next  time.Time // not before
}

// toRemind returns what is to be said to owners of copies here. Run alone calls it.
func (m *Manager) toRemind(now time.Time) (tasks []func(context.Context)) {
	if m.cfg.Replicas == nil || m.turn%slowly != 0 || m.draining.Load() {
		return nil
	}
	missed := map[peer.ID][]netip.Prefix{}
	kept := map[netip.Prefix]reminder{}
	for _, h := range m.cfg.Replicas.Held() {
		since := h.Heard
		if since.Before(m.started) {
			since = m.started
		}
		if now.Sub(since) <= m.cfg.Times.Lost || now.Sub(m.lastHeard(h.Owner)) > m.cfg.Times.Silence {
			continue
		}
		r, again := m.reminded[h.Subnet]
		switch {
		case !again:
			r.since = now
		case now.Before(r.next):
			kept[h.Subnet] = r
			continue
		case now.Sub(r.since) > m.cfg.Times.Anew*5/4:
			m.wreck(h.Subnet) // the owner has begun anew, or needs it no more
			continue
		case h.Complete:
			m.resume(h.Subnet)
		}
		r.next = now.Add(remindEvery)
		kept[h.Subnet] = r
		missed[h.Owner] = append(missed[h.Owner], h.Subnet)
	}
	m.reminded = kept
	for owner, all := range missed {
		tasks = append(tasks, func(ctx context.Context) {
			for some := range slices.Chunk(all, shadow.MaxAsked) {
				if err := m.cfg.Replicas.Remind(ctx, owner, some); err != nil {
					m.log.Debug("an owner is not reminded of its subnets", "owner", owner, "err", err)
					return
				}
			}
		})
	}
	return tasks
}

// Reminded has it looked at whether a subnet is ours of which nothing is here.
func (m *Manager) Reminded(p netip.Prefix) { m.loose(p, time.Now()) }
