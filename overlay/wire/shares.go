package wire

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/peerstore"

	"peerd/overlay/prefix"
)

// metKey is where the peerstore has since when a peer counts as met.
const metKey = "peerd/met"

// OldAfter is after how long a peer that was met may use what is reserved: long enough that
// keys made for an attack are not among them.
const OldAfter = 10 * time.Minute

// Meet records that p has introduced itself: it has answered, over a connection of its own, with
// what its key has signed. Until then only small messages of p are read.
func Meet(ps peerstore.Peerstore, p peer.ID) {
	if _, err := ps.Get(p, metKey); err != nil {
		_ = ps.Put(p, metKey, time.Now()) // a peerstore in memory has no errors
	}
}

// Met reports whether p was introduced by Meet, and since when. It is forgotten with the other
// entries of the peerstore, some time after p has disconnected.
func Met(ps peerstore.Peerstore, p peer.ID) (since time.Time, ok bool) {
	v, err := ps.Get(p, metKey)
	if err != nil {
		return time.Time{}, false
	}
	since, ok = v.(time.Time)
	return since, ok
}

// party is whom something is given to.
type party struct {
	peer peer.ID
	near netip.Prefix // the /24 or /48 of its address; invalid if that is not public
	met  bool
	old  bool // met for long
}

// partyOf returns the other side of a stream.
func partyOf(ps peerstore.Peerstore, s network.Stream) party {
	w := party{peer: s.Conn().RemotePeer()}
	since, ok := Met(ps, w.peer)
	w.met, w.old = ok, ok && time.Since(since) >= OldAfter
	if addr, ok := prefix.Public(s.Conn().RemoteMultiaddr()); ok {
		w.near = prefix.Near(addr)
	}
	return w
}

// Old reports whether the other side was met (Meet) at least ten minutes ago: long enough that keys
// made for an attack are not among them.
func (c *Conn) Old() bool { return partyOf(c.met, c.stream).old }

// Near returns the /24 or /48 of the other side's address; it is invalid if that is not public.
func (c *Conn) Near() netip.Prefix { return partyOf(c.met, c.stream).near }

// shares divides something among peers, so that neither a peer nor a network of addresses nor
// all new peers together can take all of it. Keys cost nothing, and addresses little; therefore
// a part is reserved for peers that were met long ago. The zero value gives nothing.
type shares struct {
	// total is what there is, peer and near what one peer and one /24 or /48 may have, and
	// young what all peers together may have that were not met long ago.
	total, peer, near, young int

	mu     sync.Mutex
	used   int
	recent int // of used, by peers not met long ago
	peers  map[peer.ID]int
	nears  map[netip.Prefix]int
	freed  chan struct{} // closed at the next release; nil if none waits
}

// take takes n for one that has had own so far, and reports whether it could. Who has all that
// was taken of a share may take more, so that a large message can pass at all.
func (s *shares) take(w party, n, own int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	fits := func(used, most int) bool { return own > 0 && used == own || used+n <= most }
	if !fits(s.used, s.total) || !fits(s.peers[w.peer], s.peer) ||
		w.near.IsValid() && !fits(s.nears[w.near], s.near) || !w.old && !fits(s.recent, s.young) {
		return false
	}
	if s.peers == nil {
		s.peers, s.nears = map[peer.ID]int{}, map[netip.Prefix]int{}
	}
	s.add(w, n)
	return true
}

// takeWithin is take; it waits until d is over or ctx ends.
func (s *shares) takeWithin(
	ctx context.Context, w party, n, own int, d time.Duration,
) bool {
	if s.take(w, n, own) {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	for {
		freed := s.nextRelease()
		if s.take(w, n, own) {
			return true
		}
		select {
		case <-freed:
		case <-t.C:
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// nextRelease returns a channel that is closed at the next release.
func (s *shares) nextRelease() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.freed == nil {
		s.freed = make(chan struct{})
	}
	return s.freed
}

// release returns n that was taken by the same party.
func (s *shares) release(w party, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(w, -n)
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}

// add adds n to what w has. The caller holds mu.
func (s *shares) add(w party, n int) {
	s.used += n
	if s.peers[w.peer] += n; s.peers[w.peer] == 0 {
		delete(s.peers, w.peer)
	}
	if w.near.IsValid() {
		if s.nears[w.near] += n; s.nears[w.near] == 0 {
			delete(s.nears, w.near)
		}
	}
	if !w.old {
		s.recent += n
	}
}
