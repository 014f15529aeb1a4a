package atlas

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"net/netip"
	"slices"
	"time"

	"peerd/coords"
	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// Own is a subnet of this peer that has been decided.
type Own struct {
	Subnet netip.Prefix
	// Sealed is its lease. Nil: it is just being signed anew.
	Sealed []byte
}

// spoken is a subnet of ours and what was told of it.
type spoken struct {
	sealed  []byte
	lease   lease.Lease
	changed time.Time // since when others should hear something new of it; zero: they have
	told    lease.Lease
	at      time.Time // when that was; zero: never
	seen    uint64    // the look at which it was last ours
}

// ledger is what is ours and what was told of it. It belongs to the goroutine
// of Run.
type ledger struct {
	all   map[netip.Prefix]*spoken
	looks uint64
}

// look takes in what is ours now, and returns what has left.
func (g *ledger) look(own []Own, now time.Time, learn func(lease.Lease)) (gone []netip.Prefix, err error) {
	g.looks++
	for _, o := range own {
		s := g.all[o.Subnet]
		if s == nil {
			s = new(spoken)
			g.all[o.Subnet] = s
		}
		s.seen = g.looks
		if o.Sealed == nil || bytes.Equal(o.Sealed, s.sealed) {
			continue
		}
		l, e := lease.OpenLease(o.Sealed)
		if e != nil || l.Subnet != o.Subnet {
			err = cmp.Or(e, ErrMessage)
			continue
		}
		l.Grant, l.Takeover = nil, nil
		s.sealed, s.lease = o.Sealed, l
		learn(l)
		if s.changed.IsZero() && (s.at.IsZero() || !same(l, s.told)) {
			s.changed = now
		}
	}
	for p, s := range g.all {
		if s.seen != g.looks {
			delete(g.all, p)
			gone = append(gone, p)
		}
	}
	return gone, err
}

// fresh returns the subnets of which something new is to be told, the longest
// waiting first.
func (g *ledger) fresh() []*spoken {
	return g.pick(func(s *spoken) bool { return !s.changed.IsZero() }, func(s *spoken) time.Time { return s.changed })
}

// old returns the subnets that were told before that time, the first first.
func (g *ledger) old(before time.Time) []*spoken {
	return g.pick(func(s *spoken) bool { return !s.at.IsZero() && s.at.Before(before) }, func(s *spoken) time.Time { return s.at })
}

func (g *ledger) pick(which func(*spoken) bool, when func(*spoken) time.Time) []*spoken {
	var out []*spoken
	for _, s := range g.all {
		if s.sealed != nil && which(s) {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b *spoken) int { return when(a).Compare(when(b)) })
	return out
}

// pack makes a message of as many of the first as fit, and returns these.
func pack(from []*spoken, size int) (msg announcement, in []*spoken) {
	room := size - overhead
	for _, s := range from {
		if room -= len(s.sealed) + overhead; room < 0 || len(in) == maxLeases {
			break
		}
		msg.Leases = append(msg.Leases, s.sealed)
		in = append(in, s)
	}
	return msg, in
}

// say tells what is due, if anything. Who is alone keeps it for later.
func (a *Atlas) say(ctx context.Context, now time.Time) {
	others := a.cfg.Peers()
	if others < 1 || len(a.topic.ListPeers()) == 0 {
		a.alone = now
	}
	if now.Before(a.next) || now.Sub(a.alone) < a.cfg.Settle {
		return
	}
	due, repeated := a.mine.fresh(), false
	if len(due) == 0 && !now.Before(a.repeat) {
		due, repeated = a.mine.old(now.Add(-a.cfg.RepeatAfter)), true
	}
	msg, in := pack(due, a.cfg.Size)
	if len(in) == 0 {
		return
	}
	raw, err := wire.Marshal(msg)
	if err != nil {
		a.log.Error("announcing subnets failed", "err", err)
		return
	}
	if err := a.topic.Publish(ctx, raw); err != nil {
		if ctx.Err() == nil {
			a.log.Warn("announcing subnets failed", "err", err)
		}
		return
	}
	for _, s := range in {
		s.told, s.at, s.changed = s.lease, now, time.Time{}
	}
	a.sent.Add(int64(len(in)))
	a.bytes.Add(int64(len(raw)))
	a.next = now.Add(spread(a.cfg.Gap))
	if repeated {
		seconds := float64(len(raw)) * float64(others+1) / float64(a.cfg.RepeatRate)
		a.repeat = now.Add(spread(time.Duration(min(seconds, maxPause.Seconds()) * float64(time.Second))))
	}
}

// maxPause bounds the pause between repetitions, so that it is a duration.
const maxPause = 1000 * time.Hour

// changedBy is by how much, in logarithms, what a lease says of times must
// change to be told before its turn.
const changedBy = 0.2

// same says whether two leases of a subnet say the same, but for their times
// and for small changes of the proxy coordinate.
func same(a, b lease.Lease) bool {
	if a.Owner != b.Owner || a.Epoch != b.Epoch || (a.Proxy == nil) != (b.Proxy == nil) {
		return false
	}
	if a.Proxy == nil {
		return true
	}
	p, q := *a.Proxy, *b.Proxy
	if len(p.At.Vec) != len(q.At.Vec) || len(p.Traits) != len(q.Traits) {
		return false
	}
	for i, x := range p.Traits {
		if math.Abs(x-q.Traits[i]) > changedBy {
			return false
		}
	}
	// The distance between the places is how much any distance may change.
	between := coords.Coordinate{Vec: p.At.Vec}.Distance(coords.Coordinate{Vec: q.At.Vec})
	base := func(p coords.Proxy) float64 { return p.Delay + p.Scale*p.At.Height + p.PerKB*typicalKB + floorMs }
	lo, hi := base(p), base(q)
	return math.Abs(math.Log(lo/hi)) <= changedBy && max(p.Scale, q.Scale)*between <= changedBy*max(lo, hi)
}

// What same takes for the size of a page and for the least time of one.
const (
	typicalKB = 20
	floorMs   = 20
)
