package peers

import (
	"cmp"
	"fmt"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/internal/order"
)

// A peer that starts while members are away does not know them, or whether they know it. The peers
// that it meets tell it. It believes what most of them say.

// JoiningFor is how long after its start a peer takes those that it meets for old members, and asks
// them which members are away.
const JoiningFor = time.Minute

const (
	maxAbsent  = 64 // absent peers in one message
	maxName    = 64 // bytes of the ID of one; that of a member has 38
	maxTellers = 64 // peers of which a peer that joins remembers what they told
)

// absent tells a peer that joins of a member that is away.
type absent struct {
	Peer peer.ID `cbor:"1,keyasint"`
	// Stranger reports that the peer that joins was first heard while the other one was away.
	Stranger bool `cbor:"2,keyasint,omitempty"`
}

// checkNames returns an error that wraps ErrBeacon if there are more names of peers than may be
// sent, or longer ones. what says which peers they are.
func checkNames[T any](what string, all []T, name func(T) peer.ID) error {
	if len(all) > maxAbsent {
		return fmt.Errorf("%w: %d %s, want at most %d", ErrBeacon, len(all), what, maxAbsent)
	}
	for _, x := range all {
		if n := len(name(x)); n > maxName {
			return fmt.Errorf("%w: %s: an ID has %d bytes, want at most %d", ErrBeacon, what, n,
				maxName)
		}
	}
	return nil
}

// checkAbsent is checkNames for peers that are away.
func checkAbsent(all []absent) error {
	return checkNames("absent peers", all, func(a absent) peer.ID { return a.Peer })
}

// newcomers knows who joined while others were away, and what this peer was told when it joined
// itself. It is safe for concurrent use.
type newcomers struct {
	directory *Directory
	born      time.Time // when it was made

	mu       sync.Mutex
	accounts map[peer.ID]map[peer.ID]bool // by who told of whom, and whether that is a stranger

	// elsewhere is what peers told that were away: who joined there.
	elsewhere *lru.Cache[peer.ID, []peer.ID]
}

func newNewcomers(d *Directory) *newcomers {
	return &newcomers{directory: d, born: d.cfg.Local.Now(),
		accounts:  map[peer.ID]map[peer.ID]bool{},
		elsewhere: lru.New[peer.ID, []peer.ID](maxTellers)}
}

// joins reports whether this peer has just started.
func (n *newcomers) joins() bool { return n.directory.cfg.Local.Now().Sub(n.born) < JoiningFor }

// absentFor returns the peers that are away, of those that were once connected, to tell the peer
// to; first those that were heard last.
func (n *newcomers) absentFor(to peer.ID) []absent {
	d, now := n.directory, n.directory.cfg.Local.Now()
	d.mu.RLock()
	defer d.mu.RUnlock()
	var away []peer.ID
	for p, l := range d.lives {
		if s := d.state(l, now); p != to && l.direct && (s == Suspect || s == Dead) {
			away = append(away, p)
		}
	}
	order.SortFunc(away, func(a, b peer.ID) int {
		return cmp.Or(d.lives[b].heard.Compare(d.lives[a].heard), cmp.Compare(a, b))
	})
	var all []absent
	for _, p := range away[:min(len(away), maxAbsent)] {
		all = append(all, absent{Peer: p, Stranger: n.joinedWhile(to, p, now)})
	}
	return all
}

// told records which members are away by the account of a peer, if this one joins.
func (n *newcomers) told(by peer.ID, all []absent) {
	if !n.joins() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, again := n.accounts[by]; !again && len(n.accounts) >= maxTellers {
		return
	}
	of := make(map[peer.ID]bool, len(all))
	for _, a := range all {
		of[a.Peer] = a.Stranger
	}
	n.accounts[by] = of
}

// Absent reports whether most of the peers that this one met when it joined have told it that a
// member was away then, and if so, whether most of these said that it does not know this peer.
func (n *newcomers) Absent(p peer.ID) (away, stranger bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	named, strange := 0, 0
	for _, of := range n.accounts {
		if s, ok := of[p]; ok {
			named++
			if s {
				strange++
			}
		}
	}
	away = 2*named > len(n.accounts)
	return away, away && 2*strange > named
}

// Joined reports whether p joined while another peer was away: p was first heard when that one,
// which was heard before, was not; or it joined elsewhere, and the other one was here.
func (n *newcomers) Joined(p, while peer.ID) bool {
	now := n.directory.cfg.Local.Now()
	n.directory.mu.RLock()
	defer n.directory.mu.RUnlock()
	if n.joinedWhile(p, while, now) {
		return true
	}
	return p != while && n.wasHere(while, n.tellers(p, now), now)
}

// joinedWhile reports whether p was first heard while another peer, which was heard before, was
// away; of this peer, whether it was told so. If that was soon after the other one was last heard,
// it is not sure: a beacon reaches some peers later than others. The caller holds the directory's
// mutex.
func (n *newcomers) joinedWhile(p, while peer.ID, now time.Time) bool {
	if p == n.directory.cfg.Self {
		_, stranger := n.Absent(while)
		return stranger
	}
	lives := n.directory.lives
	w := lives[while]
	if w == nil {
		return false
	}
	first, from, to := now, w.left, w.came
	if l := lives[p]; l != nil {
		first = l.first
	}
	if s := n.directory.state(w, now); s == Suspect || s == Dead {
		from, to = w.heard, now
	}
	return !from.IsZero() && first.After(from.Add(awayFor)) && !first.After(to)
}
