package witness

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// Bounds of what others can make a witness remember.
const (
	maxWards   = 4096
	maxBallots = 1 << 19
)

// guard is the witness's half: whom it hears, whom it voted for. It has no lock,
// and writes nothing: what has to be on disk before an answer leaves is returned
// with the answer. Times are of one monotonic clock that starts with it.
type guard struct {
	self    peer.ID
	promise time.Duration
	boot    uint64    // this life's name, drawn at random
	wait    time.Time // no votes before: what was promised in an earlier life is over
	wards   map[peer.ID]*ward
	count   int    // ballots
	num     uint64 // the last one given out
}

// ward is one owner that this peer is or may become a witness of.
type ward struct {
	heard   time.Time // its last heartbeat; from then on the promise counts
	panel   lease.Panel
	sealed  []byte
	durable bool // panel is on disk
	ballots map[netip.Prefix]*ballot
	told    uint64 // notices up to this number have arrived
}

// ballot is a vote given against a ward.
type ballot struct {
	epoch  uint64
	to     peer.ID
	at     time.Time // when it was last given, or read from disk
	since  time.Time // the same by the clock on the wall, not renewed by a restart
	num    uint64    // notices are told in the order of these
	try    uint64    // the asking that it was given in; zero when read from disk
	closed bool      // needs not be told any more
}

// newGuard returns a guard with nothing to remember. fresh says that the disk was
// empty: there may have been votes that were lost with it.
func newGuard(self peer.ID, cfg Config, now time.Time, boot uint64, fresh bool) *guard {
	g := &guard{self: self, promise: cfg.Promise, boot: boot, wait: now.Add(cfg.Promise), wards: map[peer.ID]*ward{}}
	if fresh {
		g.wait = now.Add(max(cfg.Promise, ReviveAfter)) // whoever had a lost vote has used it by then
	}
	return g
}

func (g *guard) ward(owner peer.ID) (*ward, error) {
	w := g.wards[owner]
	if w == nil {
		if len(g.wards) >= maxWards {
			return nil, fmt.Errorf("witness: of %d owners already", maxWards)
		}
		w = &ward{ballots: map[netip.Prefix]*ballot{}}
		g.wards[owner] = w
	}
	return w, nil
}

// learn takes a panel that owner signed, unless a newer one is known.
func (w *ward) learn(p lease.Panel, sealed []byte) error {
	switch {
	case p.Seq > w.panel.Seq:
		w.panel, w.sealed, w.durable = p, sealed, false
	case p.Seq == w.panel.Seq && !bytes.Equal(sealed, w.sealed):
		return fmt.Errorf("%w: two panels of number %d", ErrMessage, p.Seq)
	}
	return nil
}

// beat answers a heartbeat that came at now. From then on no vote is given against
// owner for the promise.
func (g *guard) beat(now time.Time, owner peer.ID, b beat) (ack, error) {
	w, err := g.ward(owner)
	if err != nil {
		return ack{}, err
	}
	if len(b.Panel) > 0 {
		p, err := lease.OpenPanel(b.Panel)
		if err == nil && p.Owner != owner {
			err = fmt.Errorf("%w: another's panel", ErrMessage)
		}
		if err == nil {
			err = w.learn(p, b.Panel)
		}
		if err != nil {
			return ack{}, err
		}
	}
	if now.After(w.heard) { // another of its heartbeats may have been faster
		w.heard = now
	}
	if b.Boot == g.boot {
		w.told = max(w.told, min(b.Seen, g.num))
	}
	a := ack{Known: w.panel.Seq, Boot: g.boot}
	a.Notices, a.More = w.notices(b.Boot == g.boot, b.Seen)
	return a, nil
}

// notices lists what the owner has not heard of yet, in the order of numbers. An
// owner that does not say so in this life of ours hears all again.
func (w *ward) notices(told bool, seen uint64) (list []notice, more bool) {
	for subnet, b := range w.ballots {
		if !(told && b.num <= seen) && !b.closed {
			list = append(list, notice{b.num, subnet, b.epoch, b.to})
		}
	}
	slices.SortFunc(list, func(a, b notice) int {
		if a.Num < b.Num {
			return -1
		}
		return 1
	})
	if len(list) > maxNotices {
		return list[:maxNotices], true
	}
	return list, false
}

// vote answers the question of candidate to. yes has one element a step, false
// where another has the vote. The caller may tell the votes once all the ballots
// of these steps are on disk.
func (g *guard) vote(now time.Time, to peer.ID, p lease.Panel, sealed []byte, steps []step, try uint64) (v verdict, yes []bool, known []byte) {
	if p.Owner == g.self {
		return hears, nil, nil
	}
	if !p.Has(g.self) || to == p.Owner {
		return stranger, nil, nil
	}
	if now.Before(g.wait) {
		return young, nil, nil
	}
	w, err := g.ward(p.Owner)
	switch {
	case err != nil || g.count+len(steps) > maxBallots:
		return full, nil, nil
	case w.panel.Seq > p.Seq:
		return newer, nil, w.sealed
	case w.learn(p, sealed) != nil:
		return stranger, nil, nil
	case !w.heard.IsZero() && now.Sub(w.heard) < g.promise:
		return hears, nil, nil
	}
	yes = make([]bool, len(steps))
	for i, s := range steps {
		yes[i] = g.mark(now, w, to, s, try)
	}
	return votes, yes, nil
}

// mark gives the vote for a step to a candidate, unless another has it. There is
// one vote a subnet, whatever the epoch.
func (g *guard) mark(now time.Time, w *ward, to peer.ID, s step, try uint64) bool {
	b := w.ballots[s.Subnet]
	switch {
	case b == nil:
		b = &ballot{}
		w.ballots[s.Subnet] = b
		g.count++
	case now.Sub(b.at) < VoteLife && (b.to != to || b.epoch != s.Epoch):
		return false
	}
	g.num++
	*b = ballot{epoch: s.Epoch, to: to, at: now, since: now.Round(0), num: g.num, try: try}
	return true
}

// drop forgets the votes that candidate to got by the name of try and does not use.
func (g *guard) drop(to, owner peer.ID, steps []step, try uint64) (gone []netip.Prefix) {
	w := g.wards[owner]
	if w == nil {
		return nil
	}
	for _, s := range steps {
		if b := w.ballots[s.Subnet]; b != nil && b.to == to && b.try == try && try != 0 {
			delete(w.ballots, s.Subnet)
			g.count--
			gone = append(gone, s.Subnet)
		}
	}
	return gone
}

// expire forgets votes that are not needed any more: told of, or too old to
// matter, and free for others for VoteLife. It returns what was forgotten.
func (g *guard) expire(now time.Time) (gone map[peer.ID][]netip.Prefix) {
	gone = map[peer.ID][]netip.Prefix{}
	for owner, w := range g.wards {
		for subnet, b := range w.ballots {
			over := b.closed || b.num <= w.told || now.Round(0).Sub(b.since) > Forget
			if over && now.Sub(b.at) >= VoteLife {
				delete(w.ballots, subnet)
				g.count--
				gone[owner] = append(gone[owner], subnet)
			}
		}
		if len(w.ballots) == 0 && w.panel.Seq == 0 && now.Sub(w.heard) > max(g.promise, VoteLife) {
			delete(g.wards, owner)
		}
	}
	return gone
}

// settled marks the vote for a step as one that needs not be told of any more.
func (g *guard) settled(subnet netip.Prefix, epoch uint64) {
	for _, w := range g.wards {
		if b := w.ballots[subnet]; b != nil && b.epoch <= epoch {
			b.closed = true
		}
	}
}
