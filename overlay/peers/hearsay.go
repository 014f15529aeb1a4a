package peers

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/prefix"
)

// ErrFull means that the directory has no room for another beacon of this kind: too many are
// known by hearsay, or too many peers of one network of addresses.
var ErrFull = errors.New("peers: no room for the beacon")

// Parts of Directory.Max (Heilman et al. 2015: an attacker fills a table with addresses that
// cost nothing, unless each source and each network of addresses may only fill a part).
const (
	hearsayPart = 4 // a quarter may be known by hearsay
	tellerPart  = 8 // an eighth by hearsay from one peer, or the peers at one /24 or /48
	nearPart    = 4 // a quarter may have addresses in one /24 or /48
	widePart    = 2 // a half in one /16 or /32
	// nearHearsay is how many peers known by hearsay may have addresses in one /24 or /48, and
	// wideHearsay in one /16 or /32: each of them is dialed a few times, perhaps at the expense
	// of a third party.
	nearHearsay = 8
	wideHearsay = 24
	// leastPart is how many entries of a kind there may be in a small directory.
	leastPart = 8
)

// hearsay says who has told this peer of another one. A peer is known by hearsay only, until it
// was heard over a connection of its own, or two peers to which this one has measured the
// distance have told of it that have no /24 or /48 in common: keys cost nothing. Hearsay is dialed,
// but neither relayed nor shown to other packages.
type hearsay struct {
	by      peer.ID        // the first to tell; empty: not hearsay
	nears   []netip.Prefix // every /24 and /48 of its connections and public addresses
	vouched bool           // by two measured peers
	unsure  bool           // by is not measured, or not connected any more
}

// same reports whether a and b may be accounts of one machine.
func (a hearsay) same(b hearsay) bool {
	return a.by == b.by || overlap(a.nears, b.nears) > 0
}

// and returns what a and another account b of the same peer are together.
func (a hearsay) and(b hearsay) hearsay {
	switch {
	case a.by == "" || a.vouched:
		return a
	case b.by == "":
		return b
	case !a.same(b) && !a.unsure && !b.unsure:
		a.vouched = true
	case a.unsure && !b.unsure:
		return b
	}
	return a
}

// only reports whether a peer is known by nothing else than a. l is nil for an unknown peer.
func (a hearsay) only(l *life) bool { return a.by != "" && !a.vouched && (l == nil || !l.direct) }

// hearsay reports whether the peer is known by hearsay only.
func (e *entry) hearsay() bool { return e.told.only(e.life) }

// Hearsay reports whether p is known by hearsay only.
func (d *Directory) Hearsay(p peer.ID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	e := d.entries[p]
	return e != nil && e.hearsay()
}

// putHearsay is Put for a beacon that another peer has relayed. Errors may also wrap ErrFull.
func (d *Directory) putHearsay(raw []byte, age time.Duration, told hearsay) (Beacon, error) {
	b, err := d.put(raw, age, told)
	if errors.Is(err, ErrKnown) {
		d.vouch(raw, told)
	}
	return b, err
}

// vouch records another account of a peer of which the beacon is known.
func (d *Directory) vouch(raw []byte, told hearsay) {
	claim, err := peek(raw)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.entries[claim.Peer]; e != nil {
		e.told = e.told.and(told)
	}
}

// checkRoom returns ErrFull if b may not be added. In the place of an older beacon of its peer only
// its addresses count, if the peer is still known by hearsay only: they may be others. The caller
// holds mu.
func (d *Directory) checkRoom(b Beacon, told hearsay, now time.Time) error {
	isNew, isHearsay := d.entries[b.Peer] == nil, told.only(d.lives[b.Peer])
	if !isNew && !isHearsay {
		return nil
	}
	nears, wides := networks(b)
	var all, byTeller, near, wide, nearTold, wideTold int
	for p, e := range d.entries {
		if p == b.Peer || !d.present(e, now) {
			continue
		}
		n, w := networks(e.beacon)
		sharesNear, sharesWide := overlap(n, nears), overlap(w, wides)
		near, wide = near+sharesNear, wide+sharesWide
		if e.hearsay() {
			all++
			nearTold, wideTold = nearTold+sharesNear, wideTold+sharesWide
			if e.told.same(told) {
				byTeller++
			}
		}
	}
	part := func(n int) int { return max(d.cfg.Max/n, leastPart) }
	switch {
	case isNew && (near >= part(nearPart) || wide >= part(widePart)):
		return fmt.Errorf("%w: %d peers have addresses in %v, and %d in %v", ErrFull, near,
			nears, wide, wides)
	case isNew && isHearsay && (all >= part(hearsayPart) || byTeller >= part(tellerPart)):
		return fmt.Errorf("%w: %d peers are known by hearsay, %d of them from %s or its network",
			ErrFull, all, byTeller, told.by)
	case isHearsay && (nearTold >= nearHearsay || wideTold >= wideHearsay):
		return fmt.Errorf("%w: %d peers in %v, and %d in %v, are known by hearsay", ErrFull,
			nearTold, nears, wideTold, wides)
	}
	return nil
}

// networks returns the networks of the public addresses of a peer.
func networks(b Beacon) (nears, wides []netip.Prefix) {
	for _, a := range b.Info().Addrs {
		if addr, ok := prefix.Public(a); ok {
			nears, wides = append(nears, prefix.Near(addr)), append(wides, prefix.Wide(addr))
		}
	}
	return nears, wides
}

// overlap returns 1 if a and b have a network in common, else 0.
func overlap(a, b []netip.Prefix) int {
	for _, p := range a {
		for _, q := range b {
			if p == q {
				return 1
			}
		}
	}
	return 0
}
