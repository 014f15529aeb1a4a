package outbox

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// suspect is an owner that does not answer. The owners of its subnets are read again, one
// subnet after another, until it answers or has no pending URLs. It gets one batch at a time
// (hostTable.retries). All suspects share Config.RefreshRate, so the failure of an owner of
// many subnets does not cause a burst of lookups.
type suspect struct {
	slot
	owner  peer.ID
	queue  []netip.Prefix // to be read in this round
	rounds int
}

// ownerReads says which owners of subnets are to be read again, and when. It is part of a
// hostTable.
type ownerReads struct {
	cfg      *Config
	suspects map[peer.ID]*suspect // owners that do not answer
	doubts   []doubt              // to be read before those
	times    timeline[*suspect]
	at       time.Time // no owner is read again before
}

// suspect starts to read the owners of the subnets of owner again.
func (r *ownerReads) suspect(owner peer.ID, now time.Time) {
	if r.suspects[owner] == nil {
		s := &suspect{owner: owner}
		r.suspects[owner] = s
		r.times.set(s, now)
	}
}

// A doubt is a subnet that its supposed owner says it does not own, without naming the owner: it
// has handed the subnet over and restarted since, or lost its disk. Or the supposed owner does not
// answer, and another peer says that it owns the subnet.
type doubt struct {
	owner  peer.ID
	subnet netip.Prefix
}

// maxDoubts bounds the doubts that wait. An owner repeats those that are discarded, and those of a
// suspect are read again in any case.
const maxDoubts = 4096

// doubt schedules reading the owner of a subnet again, before those of suspects.
func (r *ownerReads) doubt(owner peer.ID, p netip.Prefix) {
	if d := (doubt{owner, p}); len(r.doubts) < maxDoubts && !slices.Contains(r.doubts, d) {
		r.doubts = append(r.doubts, d)
	}
}

// clear ends the suspicion of owner.
func (r *ownerReads) clear(owner peer.ID) {
	if s := r.suspects[owner]; s != nil {
		delete(r.suspects, owner)
		r.times.remove(s)
	}
}

// next returns a subnet of which the owner is to be read again now. Suspects take turns. queues
// are those of the owners.
func (r *ownerReads) next(
	queues map[peer.ID]*hostQueue, now time.Time,
) (owner peer.ID, p netip.Prefix, ok bool) {
	for !now.Before(r.at) {
		if len(r.doubts) > 0 {
			d := r.doubts[0]
			r.doubts = r.doubts[1:]
			r.delay(now)
			return d.owner, d.subnet, true
		}
		s, due := r.times.pop(now)
		if !due {
			break
		}
		if len(s.queue) == 0 {
			s.queue = queues[s.owner].subnets()
		}
		if len(s.queue) == 0 {
			delete(r.suspects, s.owner)
			continue
		}
		p, s.queue = s.queue[0], s.queue[1:]
		at := now
		if len(s.queue) == 0 {
			at = now.Add(r.cfg.backoff(s.rounds))
			s.rounds++
		}
		r.times.set(s, at)
		r.delay(now)
		return s.owner, p, true
	}
	return "", p, false
}

// delay sets the time of the next read, to keep to Config.RefreshRate.
func (r *ownerReads) delay(now time.Time) {
	r.at = now.Add(time.Second / time.Duration(max(r.cfg.RefreshRate, 1)))
}

// subnets returns the subnets of an owner that have pending URLs, those of the hosts served
// last at the end.
func (q *hostQueue) subnets() (all []netip.Prefix) {
	if q == nil {
		return nil
	}
	seen := map[netip.Prefix]bool{}
	for x := q.hosts.Front(); x != nil; x = x.Next() {
		if p := x.Value.(*entry).res.Subnet; !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}

// until returns the time until an owner is to be read again, at most most.
func (r *ownerReads) until(now time.Time, most time.Duration) time.Duration {
	if len(r.doubts) > 0 {
		return min(most, max(0, r.at.Sub(now)))
	}
	if len(r.times.items) == 0 {
		return most
	}
	return min(most, max(r.times.until(now, most), r.at.Sub(now)))
}

// refreshOwner reads the owner of a subnet again. If it has changed, the subnet's hosts are
// resolved again.
func (f *Forwarder) refreshOwner(
	ctx context.Context, owner peer.ID, p netip.Prefix, denied bool,
) {
	changed, err := f.cfg.Resolver.RefreshOwner(ctx, p, owner, denied)
	if err != nil {
		f.log.Debug("failed to read owner again", "subnet", p, "owner", owner, "err", err)
		return
	}
	if changed {
		f.log.Info("found new owner of subnet", "subnet", p, "old_owner", owner)
		f.withTable(func(t *hostTable) { t.resolveAgain(p, time.Now()) })
	}
}
