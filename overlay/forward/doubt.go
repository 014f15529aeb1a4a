package forward

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// suspect is an owner that does not answer. Who owns its subnets is read anew, one
// after another, until it answers or nothing waits for it. There is one batch at a
// time to it (book.retries), whatever it owns, and all suspects share the pace of
// Config.RefreshRate: a dead owner of many subnets makes no storm.
type suspect struct {
	slot
	owner  peer.ID
	queue  []netip.Prefix // to be read yet in this round
	rounds int
}

// doubt begins to read anew who owns what is taken for that owner's.
func (b *book) doubt(owner peer.ID, now time.Time) {
	if b.suspects[owner] == nil {
		s := &suspect{owner: owner}
		b.suspects[owner] = s
		b.doubts.set(s, now)
	}
}

// A denial is a subnet that its supposed owner says is not its own, without
// showing whose it is: it has handed it over and restarted since, or lost its disk.
type denial struct {
	owner  peer.ID
	subnet netip.Prefix
}

// maxDenials bounds the denials that wait; what is beyond is denied again.
const maxDenials = 4096

// denied has a subnet's owner read anew, in turn with the suspects' and first.
func (b *book) denied(owner peer.ID, p netip.Prefix) {
	if d := (denial{owner, p}); len(b.denials) < maxDenials && !slices.Contains(b.denials, d) {
		b.denials = append(b.denials, d)
	}
}

// trust ends that.
func (b *book) trust(owner peer.ID) {
	if s := b.suspects[owner]; s != nil {
		delete(b.suspects, owner)
		b.doubts.remove(s)
	}
}

// doubted takes a subnet whose owner is to be read anew now. Suspects take turns.
func (b *book) doubted(now time.Time) (owner peer.ID, p netip.Prefix, ok bool) {
	for !now.Before(b.paced) {
		if len(b.denials) > 0 {
			d := b.denials[0]
			b.denials = b.denials[1:]
			b.pace(now)
			return d.owner, d.subnet, true
		}
		s, due := b.doubts.pop(now)
		if !due {
			break
		}
		if len(s.queue) == 0 {
			s.queue = b.subnetsOf(s.owner)
		}
		if len(s.queue) == 0 {
			delete(b.suspects, s.owner)
			continue
		}
		p, s.queue = s.queue[0], s.queue[1:]
		at := now
		if len(s.queue) == 0 {
			at = now.Add(b.cfg.wait(s.rounds))
			s.rounds++
		}
		b.doubts.set(s, at)
		b.pace(now)
		return s.owner, p, true
	}
	return "", p, false
}

// pace puts the next reading off, so that Config.RefreshRate holds.
func (b *book) pace(now time.Time) {
	b.paced = now.Add(time.Second / time.Duration(max(b.cfg.RefreshRate, 1)))
}

// subnetsOf returns the subnets of an owner for which something waits, those of
// hosts served last at the end.
func (b *book) subnetsOf(owner peer.ID) (all []netip.Prefix) {
	l := b.outboxes[owner]
	if l == nil {
		return nil
	}
	seen := map[netip.Prefix]bool{}
	for x := l.hosts.Front(); x != nil; x = x.Next() {
		if p := x.Value.(*entry).res.Subnet; !seen[p] {
			seen[p] = true
			all = append(all, p)
		}
	}
	return all
}

// untilDoubt returns how long no owner is to be read anew, at most most.
func (b *book) untilDoubt(now time.Time, most time.Duration) time.Duration {
	if len(b.denials) > 0 {
		return min(most, max(0, b.paced.Sub(now)))
	}
	if len(b.doubts.items) == 0 {
		return most
	}
	return min(most, max(b.doubts.until(now, most), b.paced.Sub(now)))
}

// refresh reads anew who owns a subnet. Its URLs go to the new owner, if there is
// one.
func (f *Forwarder) refresh(ctx context.Context, owner peer.ID, p netip.Prefix) {
	changed, err := f.cfg.Resolver.Refresh(ctx, p, owner)
	if err != nil {
		f.log.Debug("owner not read anew", "subnet", p, "owner", owner, "err", err)
		return
	}
	if changed {
		f.log.Info("a subnet has another owner than the one that does not answer", "subnet", p, "was", owner)
		f.with(func(b *book) { b.reconsider(p, time.Now()) })
	}
}
