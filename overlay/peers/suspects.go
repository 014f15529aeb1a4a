package peers

import (
	"cmp"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/order"
)

// allPresent returns the beacons of all present peers, including suspects.
func (d *Directory) allPresent() []Beacon {
	return d.list(func(*entry, time.Time) bool { return true })
}

// known returns the beacons of the present peers that are not suspect, with those known by
// hearsay.
func (d *Directory) known() []Beacon {
	return d.list(func(e *entry, _ time.Time) bool { return !e.suspect() })
}

// silent returns the beacons of the peers that are not suspect and have been silent for more
// than 1/part of their lifetime.
func (d *Directory) silent(part int) []Beacon {
	return d.list(func(e *entry, now time.Time) bool {
		return !e.suspect() && !e.hearsay() &&
			now.Sub(e.heard) > d.lifetime(e.life)/time.Duration(part)
	})
}

// list returns the beacons of the present peers that satisfy cond, sorted by peer ID.
func (d *Directory) list(cond func(*entry, time.Time) bool) []Beacon {
	now := d.cfg.Local.Now()
	d.mu.RLock()
	all := make([]Beacon, 0, len(d.entries))
	for _, e := range d.entries {
		if d.present(e, now) && cond(e, now) {
			all = append(all, e.beacon)
		}
	}
	d.mu.RUnlock()
	order.SortFunc(all, func(a, b Beacon) int { return cmp.Compare(a.Peer, b.Peer) })
	return all
}

// maxSuspicions is the maximum number of suspicions in one message.
const maxSuspicions = 8

// suspicion tells that the sender suspects a peer. The receiver does not adopt it but checks
// the peer itself.
type suspicion struct {
	Peer peer.ID `cbor:"1,keyasint"`
	// Age is how long ago the peer was found unreachable, in milliseconds.
	Age int64 `cbor:"2,keyasint"`
}

// suspicions returns the suspicions to send, the latest first.
func (d *Directory) suspicions() []suspicion {
	now := d.cfg.Local.Now()
	var out []suspicion
	d.mu.RLock()
	for p, e := range d.entries {
		if d.state(e.life, now) == Suspect && now.Sub(e.suspected) < suspicionTTL {
			out = append(out, suspicion{Peer: p, Age: now.Sub(e.suspected).Milliseconds()})
		}
	}
	d.mu.RUnlock()
	order.SortFunc(out, func(a, b suspicion) int {
		return cmp.Or(cmp.Compare(a.Age, b.Age), cmp.Compare(a.Peer, b.Peer))
	})
	return out[:min(len(out), maxSuspicions)]
}

// isNewSuspicion reports whether b is about a peer that is not suspect here and was not heard
// since.
func (d *Directory) isNewSuspicion(b suspicion) bool {
	if b.Age < 0 || b.Age > suspicionTTL.Milliseconds() {
		return false
	}
	now := d.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[b.Peer]
	return e != nil && d.state(e.life, now) == Alive &&
		!e.heard.After(now.Add(-time.Duration(b.Age)*time.Millisecond))
}

// suspicionTTL is how long a suspicion is sent to others. In large networks, where lifetimes
// are long, that is several rounds of exchanges.
const suspicionTTL = 2 * time.Minute
