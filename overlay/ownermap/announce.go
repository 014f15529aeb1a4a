package ownermap

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"net/netip"
	"time"

	"peerd/coords"
	"peerd/internal/backoff"
	"peerd/internal/order"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// OwnSubnet is a decided subnet of this peer.
type OwnSubnet struct {
	Subnet netip.Prefix
	// Sealed is its signed lease. Nil if a new one is being signed.
	Sealed []byte
}

// ownState is a subnet of this peer and what was announced of it.
type ownState struct {
	sealed      []byte
	short       []byte // without the steps before it
	lease       lease.Lease
	changedAt   time.Time // since when a change is waiting to be announced; zero: none
	announced   lease.Lease
	announcedAt time.Time // when it was announced last; zero: never
	round       uint64    // the last round of update in which it was ours
}

// ownTable contains the subnets of this peer. It is used by the goroutine of Run only.
type ownTable struct {
	all    map[netip.Prefix]*ownState
	rounds uint64
}

// update replaces the subnets of this peer by own. It calls learn with each lease that has
// changed and returns the subnets that are no longer ours.
func (t *ownTable) update(
	own []OwnSubnet, now time.Time, learn func(lease.Lease),
) (lost []netip.Prefix, err error) {
	t.rounds++
	for _, o := range own {
		s := t.all[o.Subnet]
		if s == nil {
			s = new(ownState)
			t.all[o.Subnet] = s
		}
		s.round = t.rounds
		if o.Sealed == nil || bytes.Equal(o.Sealed, s.sealed) {
			continue
		}
		l, e := lease.OpenLease(o.Sealed)
		if e != nil || l.Subnet != o.Subnet {
			err = cmp.Or(e, ErrMessage)
			continue
		}
		short, e := lease.Shorten(o.Sealed)
		if e != nil {
			err = e
			continue
		}
		l = bare(l)
		s.sealed, s.short, s.lease = o.Sealed, short, l
		learn(l)
		if s.changedAt.IsZero() && (s.announcedAt.IsZero() || !same(l, s.announced)) {
			s.changedAt = now
		}
	}
	for p, s := range t.all {
		if s.round != t.rounds {
			delete(t.all, p)
			lost = append(lost, p)
		}
	}
	return lost, err
}

// unannounced returns the subnets with a change to announce, the oldest change first.
func (t *ownTable) unannounced() []*ownState {
	return t.sorted(
		func(s *ownState) bool { return !s.changedAt.IsZero() },
		func(s *ownState) time.Time { return s.changedAt })
}

// announcedBefore returns the subnets that were announced last before that time, the oldest
// first.
func (t *ownTable) announcedBefore(before time.Time) []*ownState {
	return t.sorted(
		func(s *ownState) bool { return !s.announcedAt.IsZero() && s.announcedAt.Before(before) },
		func(s *ownState) time.Time { return s.announcedAt })
}

// sorted returns the subnets with a lease that satisfy cond, ordered by the time at.
func (t *ownTable) sorted(
	cond func(*ownState) bool, at func(*ownState) time.Time,
) []*ownState {
	var out []*ownState
	for _, s := range t.all {
		if s.sealed != nil && cond(s) {
			out = append(out, s)
		}
	}
	order.SortFunc(out, func(a, b *ownState) int { return at(a).Compare(at(b)) })
	return out
}

// pack puts as many of the first leases into a message as fit. It returns the message and the
// subnets in it.
func pack(from []*ownState, size int) (msg announcement, in []*ownState) {
	free := size - overhead
	for _, s := range from {
		if free -= len(s.short) + overhead; free < 0 || len(in) == maxLeases {
			break
		}
		msg.Leases = append(msg.Leases, s.short)
		in = append(in, s)
	}
	return msg, in
}

// announce publishes one message if something is due. While no other peer is in the topic,
// nothing is published.
func (m *Map) announce(ctx context.Context, now time.Time) {
	others := m.cfg.Node.OtherPeers()
	if others < 1 || len(m.topic.ListPeers()) == 0 {
		m.lastAlone = now
	}
	if now.Before(m.nextSend) || now.Sub(m.lastAlone) < m.cfg.Settle {
		return
	}
	due, repeated := m.own.unannounced(), false
	if len(due) == 0 && !now.Before(m.nextRepeat) {
		due, repeated = m.own.announcedBefore(now.Add(-m.cfg.RepeatAfter)), true
	}
	msg, in := pack(due, m.cfg.Size)
	if len(in) == 0 {
		return
	}
	raw, err := wire.Marshal(msg)
	if err != nil {
		m.log.Error("failed to announce subnets", "err", err)
		return
	}
	if err := m.topic.Publish(ctx, raw); err != nil {
		if ctx.Err() == nil {
			m.log.Warn("failed to announce subnets", "err", err)
		}
		return
	}
	for _, s := range in {
		s.announced, s.announcedAt, s.changedAt = s.lease, now, time.Time{}
	}
	m.sent.Add(int64(len(in)))
	m.bytes.Add(int64(len(raw)))
	m.nextSend = now.Add(backoff.Jitter(m.cfg.Gap))
	if repeated {
		seconds := float64(len(raw)) * float64(others+1) / float64(m.cfg.RepeatRate)
		pause := time.Duration(min(seconds, maxPause.Seconds()) * float64(time.Second))
		m.nextRepeat = now.Add(backoff.Jitter(pause))
	}
}

// maxPause bounds the time between two repetitions, so that it does not overflow a Duration.
const maxPause = 1000 * time.Hour

// changeThreshold is the change of a predicted time, as the absolute value of the logarithm of
// its ratio, above which a lease is announced before its turn.
const changeThreshold = 0.2

// same reports whether two leases of a subnet differ only in their times and in small changes
// of the proxy coordinate.
func same(a, b lease.Lease) bool {
	if a.Owner != b.Owner || a.Epoch != b.Epoch || (a.Proxy == nil) != (b.Proxy == nil) {
		return false
	}
	if a.Proxy == nil {
		return true
	}
	p, q := *a.Proxy, *b.Proxy
	if len(p.At.Vec) != len(q.At.Vec) {
		return false
	}
	// The distance between the two positions bounds the change of the distance to any peer.
	between := coords.Coordinate{Vec: p.At.Vec}.Distance(coords.Coordinate{Vec: q.At.Vec})
	base := func(p coords.Proxy) float64 {
		return p.Delay + p.Scale*p.At.Height + p.PerKB*typicalKB + floorMs
	}
	lo, hi := base(p), base(q)
	return math.Abs(math.Log(lo/hi)) <= changeThreshold &&
		max(p.Scale, q.Scale)*between <= changeThreshold*max(lo, hi)
}

// The page size and the minimum time of a page that same assumes.
const (
	typicalKB = 20
	floorMs   = 20
)
