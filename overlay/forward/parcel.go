package forward

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// part is what a parcel takes of one host.
type part struct {
	name string
	res  Resolution
	most int    // URLs
	all  int    // URLs that waited, by our count
	news uint64 // entry.news then
}

// parcel is a batch to be packed.
type parcel struct {
	owner peer.ID
	at    time.Time
	parts []part
	whole bool // it takes all there is
}

// parcel takes a batch that is due, from a line of them. Every host gets an
// equal part of it, as far as it has so many URLs.
func (b *book) parcel(line *timeline[*lot], now time.Time) (parcel, bool) {
	l, ok := line.pop(now)
	if !ok {
		return parcel{}, false
	}
	l.line, l.ready = nil, time.Time{}
	b.sending[l.owner] = true
	left := b.cfg.batchSize()
	p := parcel{owner: l.owner, at: now, whole: l.count <= left && l.hosts.Len() <= left}
	for range min(left, l.hosts.Len()) {
		e := l.hosts.Front().Value.(*entry)
		l.hosts.MoveToBack(e.elem)
		p.parts = append(p.parts, part{name: e.name, res: e.res, all: e.count, news: e.news})
	}
	slices.SortStableFunc(p.parts, func(x, y part) int { return x.all - y.all })
	for i := range p.parts {
		x := &p.parts[i]
		x.most = min(x.all, left/(len(p.parts)-i))
		left -= x.most
	}
	return p, true
}

// fate is what became of a parcel.
type fate uint8

const (
	failed fate = iota
	empty       // there was nothing to send
	delivered
)

// sent ends a parcel: the owner may get the next one.
func (b *book) sent(p parcel, how fate, now time.Time) {
	delete(b.sending, p.owner)
	switch how {
	case delivered:
		b.rests.Remove(p.owner)
		b.trust(p.owner)
	case failed:
		r, _ := b.rests.Get(p.owner)
		r.until = now.Add(b.cfg.wait(r.fails))
		r.fails++
		b.rests.Add(p.owner, r)
		b.doubt(p.owner, now)
		if r.fails%doubtAfter == 0 {
			for _, x := range p.parts {
				if e := b.ofOwner(x.name, p.owner); e != nil {
					b.put(e, unresolved, r.until, now)
				}
			}
		}
	}
	if l := b.outboxes[p.owner]; l != nil {
		if how != failed && p.whole && p.at.After(l.since) {
			l.since = p.at
		}
		b.plan(l, now)
	}
}
