package overlay

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// lostFirst and lostLast bound the pause between two attempts to reach a
	// member that was connected once: the halves of a parted network find each
	// other by whoever of them tries first after it has healed.
	lostFirst = 10 * time.Second
	lostLast  = 2 * time.Minute
	// maxLost is how many lost members are remembered, for as long as this peer
	// runs; the peerstore forgets them within minutes.
	maxLost = 256
)

// lost remembers members whose connection has ended. Its methods may be called
// at once.
type lost struct {
	mu  sync.Mutex
	all map[peer.ID]*missing
}

// missing is one of them.
type missing struct {
	info  peer.AddrInfo
	since time.Time
	tries int       // since it was last seen
	next  time.Time // when it is to be tried
}

// note remembers a member that is gone. One that comes and goes at once is tried
// as seldom as one that never came.
func (l *lost) note(info peer.AddrInfo, now time.Time) {
	if len(info.Addrs) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = make(map[peer.ID]*missing)
	}
	if m := l.all[info.ID]; m != nil {
		m.info = info
		return
	}
	if len(l.all) >= maxLost {
		var oldest *missing
		for _, m := range l.all {
			if oldest == nil || m.since.Before(oldest.since) {
				oldest = m
			}
		}
		delete(l.all, oldest.info.ID)
	}
	l.all[info.ID] = &missing{info: info, since: now, next: now.Add(jitter(lostFirst))}
}

// due lists at most n that are to be tried now, the longest due first, and takes
// it that they are. Those that are connected when they are due are forgotten.
// tried says how often at the most one was.
func (l *lost) due(now time.Time, n int, connected func(peer.ID) bool) (infos []peer.AddrInfo, tried int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var ready []*missing
	for p, m := range l.all {
		switch {
		case now.Before(m.next):
		case connected(p):
			delete(l.all, p)
		default:
			ready = append(ready, m)
		}
	}
	slices.SortFunc(ready, func(a, b *missing) int {
		return cmp.Or(a.next.Compare(b.next), cmp.Compare(a.info.ID, b.info.ID))
	})
	for _, m := range ready[:min(len(ready), n)] {
		m.tries++
		m.next = now.Add(jitter(min(lostFirst<<min(m.tries, 10), lostLast)))
		infos, tried = append(infos, m.info), max(tried, m.tries)
	}
	return infos, tried
}

// list lists all.
func (l *lost) list() []peer.AddrInfo {
	l.mu.Lock()
	defer l.mu.Unlock()
	infos := make([]peer.AddrInfo, 0, len(l.all))
	for _, m := range l.all {
		infos = append(infos, m.info)
	}
	return infos
}
