package outbox

import (
	"context"
	"net/netip"
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
	doubts   []doubt
	doubted  bool // the last one read was a doubt: they take turns with suspects
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

// A doubt is a subnet of which the owner is to be read again. With denied, its supposed owner says
// that it does not own it: it has handed the subnet over, or lost its disk. Otherwise that does not
// answer.
type doubt struct {
	owner  peer.ID
	subnet netip.Prefix
	denied bool
}

// maxDoubts bounds the doubts that wait, and maxDoubtsOf those about one owner, which may deny
// whatever it likes. An owner repeats those that are discarded, and those of a suspect are read
// again in any case.
const maxDoubts, maxDoubtsOf = 4096, 64

// doubt schedules reading the owner of a subnet again.
func (r *ownerReads) doubt(d doubt) {
	of := 0
	for _, x := range r.doubts {
		if x == d {
			return
		}
		if x.owner == d.owner {
			of++
		}
	}
	if len(r.doubts) < maxDoubts && of < maxDoubtsOf {
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

// next returns a subnet of which the owner is to be read again now. Doubts come first, but every
// other one is of a suspect, which take turns. queues are those of the owners.
func (r *ownerReads) next(queues map[peer.ID]*hostQueue, now time.Time) (d doubt, ok bool) {
	if now.Before(r.at) {
		return d, false
	}
	if len(r.doubts) == 0 || r.doubted {
		d, ok = r.nextOfSuspects(queues, now)
	}
	r.doubted = !ok && len(r.doubts) > 0
	if r.doubted {
		d, ok, r.doubts = r.doubts[0], true, r.doubts[1:]
	}
	if ok {
		r.at = now.Add(time.Second / time.Duration(max(r.cfg.RefreshRate, 1)))
	}
	return d, ok
}

// nextOfSuspects returns the next subnet of a suspect that is due.
func (r *ownerReads) nextOfSuspects(
	queues map[peer.ID]*hostQueue, now time.Time,
) (d doubt, ok bool) {
	for {
		s, due := r.times.pop(now)
		if !due {
			return d, false
		}
		if len(s.queue) == 0 {
			s.queue = queues[s.owner].subnets()
		}
		if len(s.queue) == 0 {
			delete(r.suspects, s.owner)
			continue
		}
		d = doubt{owner: s.owner, subnet: s.queue[0]}
		s.queue = s.queue[1:]
		at := now
		if len(s.queue) == 0 {
			at = now.Add(r.cfg.backoff(s.rounds))
			s.rounds++
		}
		r.times.set(s, at)
		return d, true
	}
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
func (f *Forwarder) refreshOwner(ctx context.Context, d doubt) {
	changed, err := f.cfg.Resolver.RefreshOwner(ctx, d.subnet, d.owner, d.denied)
	if err != nil {
		f.log.Debug("failed to read owner again", "subnet", d.subnet, "owner", d.owner, "err", err)
		return
	}
	if changed {
		f.log.Info("found new owner of subnet", "subnet", d.subnet, "old_owner", d.owner)
		f.withTable(func(t *hostTable) { t.resolveAgain(d.subnet, time.Now()) })
	}
}
