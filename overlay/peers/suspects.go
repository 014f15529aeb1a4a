package peers

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// suspect reports whether the peer was out of reach after it was last heard.
// Whatever is heard of it from later on refutes that by itself, be it directly
// or in a beacon that was made since.
func (e *entry) suspect() bool { return !e.missed.IsZero() && !e.heard.After(e.missed) }

// Suspect notes that nobody could reach p at a time by the own clock: All no
// longer lists it and Alive denies it, until it is heard again. It expires as
// before, as long after it was last heard. It reports whether this is new: p is
// present, and was neither suspect nor heard since.
func (d *Directory) Suspect(p peer.ID, at time.Time) bool {
	now := d.cfg.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	e := d.entries[p]
	if e == nil || !d.present(e, now) || e.suspect() {
		return false
	}
	e.missed = at
	return e.suspect()
}

// Suspected reports whether p is present, but suspect.
func (d *Directory) Suspected(p peer.ID) bool {
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	return e != nil && d.present(e, now) && e.suspect()
}

// known is All with the suspect ones.
func (d *Directory) known() []Beacon {
	return d.list(func(*entry, time.Time) bool { return true })
}

// silent lists who is not suspect and has said nothing for a part of the time
// after which it would expire: 1/part of it.
func (d *Directory) silent(part int) []Beacon {
	return d.list(func(e *entry, now time.Time) bool {
		return !e.suspect() && now.Sub(e.heard) > d.lasts(e)/time.Duration(part)
	})
}

// list lists the beacons of those present for whom a condition holds, sorted by
// peer ID.
func (d *Directory) list(cond func(*entry, time.Time) bool) []Beacon {
	now := d.cfg.Now()
	d.mu.RLock()
	all := make([]Beacon, 0, len(d.entries))
	for _, e := range d.entries {
		if d.present(e, now) && cond(e, now) {
			all = append(all, e.beacon)
		}
	}
	d.mu.RUnlock()
	slices.SortFunc(all, func(a, b Beacon) int { return cmp.Compare(a.Peer, b.Peer) })
	return all
}

// maxDoubts is how many suspects one message tells of.
const maxDoubts = 8

// doubt tells that its sender takes a peer for dead. Nobody believes it; it is a
// reason to look.
type doubt struct {
	Peer peer.ID `cbor:"1,keyasint"`
	// Age is how long ago it was out of reach. Milliseconds.
	Age int64 `cbor:"2,keyasint"`
}

// doubts lists the suspects, the latest first, as far as they are worth telling.
func (d *Directory) doubts() []doubt {
	now := d.cfg.Now()
	var out []doubt
	d.mu.RLock()
	for p, e := range d.entries {
		if d.present(e, now) && e.suspect() && now.Sub(e.missed) < doubtFor {
			out = append(out, doubt{Peer: p, Age: now.Sub(e.missed).Milliseconds()})
		}
	}
	d.mu.RUnlock()
	slices.SortFunc(out, func(a, b doubt) int { return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.Peer, b.Peer)) })
	return out[:min(len(out), maxDoubts)]
}

// news reports whether a doubt is about a peer that is not suspect here and was
// not heard since.
func (d *Directory) news(b doubt) bool {
	if b.Age < 0 || b.Age > doubtFor.Milliseconds() {
		return false
	}
	now := d.cfg.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[b.Peer]
	return e != nil && d.present(e, now) && !e.suspect() &&
		!e.heard.After(now.Add(-time.Duration(b.Age)*time.Millisecond))
}

// doubtFor is how long a suspicion is told to others: in larger networks, where
// a peer lives long, some turns of exchanges.
const doubtFor = 2 * time.Minute
