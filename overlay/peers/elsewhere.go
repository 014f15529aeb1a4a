package peers

import (
	"cmp"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/internal/order"
)

// Of two peers that join on the two sides of a partition, each is a stranger to the members of the
// other side. Members that meet again therefore tell each other who joined meanwhile.

const (
	// tellFor is how long after an absence peers tell who joined in it.
	tellFor = 15 * time.Minute
	// minTellers is how many peers that were away must name one that joined there.
	minTellers = 2
)

// checkJoined is checkNames for peers that joined.
func checkJoined(all []peer.ID) error {
	return checkNames("joined peers", all, func(p peer.ID) peer.ID { return p })
}

// joinedHere returns the peers that this one first heard between the first departure and the last
// return of all members that are back for less than tellFor; first those that joined last.
func (n *newcomers) joinedHere() (all []peer.ID) {
	d, now := n.directory, n.directory.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	var from, to time.Time
	for _, l := range d.lives {
		if !l.direct || l.left.IsZero() || now.Sub(l.came) >= tellFor {
			continue
		}
		if left := l.left.Add(awayFor); from.IsZero() || left.Before(from) {
			from = left
		}
		to = clock.Later(to, l.came)
	}
	for p, l := range d.lives {
		if l.first.After(from) && !l.first.After(to) {
			all = append(all, p)
		}
	}
	order.SortFunc(all, func(a, b peer.ID) int {
		return cmp.Or(d.lives[b].first.Compare(d.lives[a].first), cmp.Compare(a, b))
	})
	return all[:min(len(all), maxAbsent)]
}

// toldJoined records who joined by the account of a peer, if that peer was away and is just back.
func (n *newcomers) toldJoined(by peer.ID, all []peer.ID) {
	d, now := n.directory, n.directory.cfg.Local.Now()
	d.mu.RLock()
	_, back := n.back(by, now)
	d.mu.RUnlock()
	if back {
		n.elsewhere.Add(by, all)
	}
}

// back returns the life of a peer that was away, also if that began before this peer joined, and is
// back for less than tellFor. The caller holds the directory's mutex.
func (n *newcomers) back(p peer.ID, now time.Time) (*life, bool) {
	l := n.directory.lives[p]
	if l == nil || now.Sub(l.came) >= tellFor {
		return nil, false
	}
	if l.left.IsZero() {
		away, _ := n.Absent(p)
		return l, away
	}
	return l, true
}

// tellers returns the peers that were away and have told that p joined there, if those are most of
// all that have told anything, and at least minTellers. A peer that this one heard before they were
// back did not join there. The caller holds the directory's mutex.
func (n *newcomers) tellers(p peer.ID, now time.Time) (named []peer.ID) {
	d := n.directory
	first := now
	if l := d.lives[p]; p == d.cfg.Self {
		return nil
	} else if l != nil { // others tell of what they heard within its lifetime
		first = l.first.Add(d.lifetime(l))
	}
	all := 0
	for _, by := range n.elsewhere.Keys() {
		l, back := n.back(by, now)
		if !back {
			continue
		}
		all++
		joined, _ := n.elsewhere.Peek(by)
		if !first.Before(l.came) && slices.Contains(joined, p) {
			named = append(named, by)
		}
	}
	if len(named) < minTellers || 2*len(named) <= all {
		return nil
	}
	return named
}

// JoinedElsewhere reports whether p joined among peers that were away, as most of them have told,
// and since when they were; the zero time: since before this peer joined.
func (n *newcomers) JoinedElsewhere(p peer.ID) (since time.Time, ok bool) {
	d, now := n.directory, n.directory.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	named := n.tellers(p, now)
	for _, by := range named {
		if left := d.lives[by].left; since.IsZero() || left.Before(since) {
			since = left
		}
	}
	return since, len(named) > 0
}

// wasHere reports whether p was a member, and not away itself, when most of some other peers were
// away. The caller holds the directory's mutex.
func (n *newcomers) wasHere(p peer.ID, away []peer.ID, now time.Time) bool {
	here := 0
	for _, w := range away {
		if !n.joinedWhile(p, w, now) && !n.awayWith(p, w) {
			here++
		}
	}
	return 2*here > len(away)
}

// awayWith reports whether another peer was away while w was. The caller holds the directory's
// mutex.
func (n *newcomers) awayWith(p, w peer.ID) bool {
	l, with := n.directory.lives[p], n.directory.lives[w]
	switch {
	case l == nil: // this peer
		return false
	case l.left.IsZero():
		away, _ := n.Absent(p)
		return away
	}
	return l.left.Before(with.came) && l.came.After(with.left)
}
