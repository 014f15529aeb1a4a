package overlay

import (
	"cmp"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/backoff"
	"peerd/internal/order"
)

const (
	// lostRetryMin and lostRetryMax bound the pause between two attempts to reach a
	// lost member: after a partition has healed, its parts find each other as soon as
	// one of the peers tries.
	lostRetryMin = 10 * time.Second
	lostRetryMax = 2 * time.Minute
	// maxLost is how many lost members are remembered, as long as this peer
	// runs; the peerstore forgets them within minutes.
	maxLost = 256
	// foundFor is how long a peer that was found is tried. mDNS reports again each 53 minutes who
	// is still there.
	foundFor = time.Hour
)

// lostPeers remembers members that are no longer connected, and peers that were found on the local
// network and are not connected yet. Its methods are safe for concurrent use.
type lostPeers struct {
	mu  sync.Mutex
	all map[peer.ID]*lostPeer
}

// lostPeer is a lost member, or a peer that was found.
type lostPeer struct {
	info  peer.AddrInfo
	since time.Time // when it was lost, or found last
	found bool      // on the local network, and not lost since
	tries int       // since it was last connected
	next  time.Time // time of the next attempt
}

// add remembers a peer: a lost member, which is tried after about lostRetryMin, or one that was
// found, which is tried at once. One that is known already keeps its pause, so that a peer that
// keeps connecting and leaving is not tried more often. Of too many, one that was found is
// forgotten, and only if there is none, a lost member: any host of the local network can be found.
func (l *lostPeers) add(info peer.AddrInfo, now time.Time, found bool) {
	if len(info.Addrs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[peer.ID]*lostPeer)
	}
	if m := l.all[info.ID]; m != nil {
		if m.info, m.found = info, m.found && found; m.found {
			m.since = now
		}
		return
	}
	added := &lostPeer{info: info, since: now, next: now, found: found}
	if !found {
		added.next = now.Add(backoff.Jitter(lostRetryMin))
	}
	l.all[info.ID] = added
	if len(l.all) > maxLost {
		least := added
		for _, m := range l.all {
			if m.found == least.found && m.since.Before(least.since) || m.found && !least.found {
				least = m
			}
		}
		delete(l.all, least.info.ID)
	}
}

// due returns up to n peers that are to be tried now, those due longest first, and
// counts the attempt. Peers that are connected when they are due are forgotten, and those that
// were found foundFor ago. tried is the largest number of attempts at one of them.
func (l *lostPeers) due(
	now time.Time, n int, connected func(peer.ID) bool,
) (infos []peer.AddrInfo, tried int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ready []*lostPeer
	for p, m := range l.all {
		switch {
		case now.Before(m.next):
		case connected(p), m.found && now.Sub(m.since) > foundFor:
			delete(l.all, p)
		default:
			ready = append(ready, m)
		}
	}
	order.SortFunc(ready, func(a, b *lostPeer) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.info.ID, b.info.ID))
	})
	for _, m := range ready[:min(len(ready), n)] {
		m.tries++
		m.next = now.Add(backoff.Jitter(backoff.Double(lostRetryMin, lostRetryMax, m.tries)))
		infos, tried = append(infos, m.info), max(tried, m.tries)
	}
	return infos, tried
}

// list returns all lost members.
func (l *lostPeers) list() []peer.AddrInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]peer.AddrInfo, 0, len(l.all))
	for _, m := range l.all {
		infos = append(infos, m.info)
	}
	return infos
}
