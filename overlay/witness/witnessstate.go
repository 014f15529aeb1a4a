package witness

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/internal/order"
	"peerd/overlay/lease"
)

// Bounds of what other peers can make a witness remember: in all, of the owners with addresses of
// one network prefix, and of one owner. A prefix is an IPv4 /24 or IPv6 /48.
const (
	maxWatched         = 4096
	maxWatchedOfPrefix = 256
	maxVotes           = 1 << 19
	maxVotesOfPrefix   = 1 << 17
	maxVotesOfOwner    = 1 << 16
)

// forgetAfter is the silence after which an owner is forgotten: none of its leases is valid.
const forgetAfter = NoticeLife

// witnessState is the witness's part: which owners it hears, and which votes it gave. It
// has no lock and does no I/O: the caller writes what has to be on disk before it sends
// a reply. Times are those of one monotonic clock.
type witnessState struct {
	self        peer.ID
	network     string
	promise     time.Duration
	node        Node      // knows the candidates; nil: all are old
	incarnation uint64    // of this peer, random
	votesFrom   time.Time // no votes before: then the last incarnation's promises have ended
	watched     map[peer.ID]*watchedPeer
	voteCount   int
	lastNum     uint64 // the last number given to a vote
}

// watchedPeer is an owner of which this peer is or may become a witness. Package peers says
// whether it is believed to be alive; heard has to be a clock of its own, because a promise
// begins with the very heartbeat that it answers.
type watchedPeer struct {
	heard        time.Time // its last heartbeat; the promise begins there
	prefix       netip.Prefix
	set          lease.WitnessSet
	sealed       []byte
	durable      bool // set is on disk
	votes        map[netip.Prefix]*voteRecord
	since        time.Time // when it was read from disk; zero: it was not
	acknowledged uint64    // notices up to this number have arrived
}

// voteRecord is a vote against a watched peer.
type voteRecord struct {
	epoch   uint64
	to      peer.ID
	at      time.Time // when it was last given, or read from disk
	since   time.Time // the same by the wall clock, and not renewed by a restart
	num     uint64    // notices are sent in this order
	attempt uint64    // of the request; zero if read from disk
}

// newWitnessState returns an empty state. uninitialized means that the disk was empty:
// votes may have been lost with an earlier one.
func newWitnessState(
	self peer.ID, cfg Config, now time.Time, incarnation uint64, uninitialized bool,
) *witnessState {
	g := &witnessState{self: self, network: cfg.Network, promise: cfg.Promise,
		node: cfg.Node, incarnation: incarnation,
		votesFrom: now.Add(cfg.Promise), watched: map[peer.ID]*watchedPeer{}}
	if uninitialized {
		// By then candidates have used the votes that were lost.
		g.votesFrom = now.Add(max(cfg.Promise, ReviveAfter))
	}
	return g
}

// watch returns the watched peer with that ID, added if need be with the prefix of its address.
func (g *witnessState) watch(owner peer.ID, from netip.Prefix) (*watchedPeer, error) {
	w := g.watched[owner]
	if w != nil {
		if !w.prefix.IsValid() { // it was read from disk, or not connected over IP
			w.prefix = from
		}
		return w, nil
	}
	w = &watchedPeer{prefix: from, votes: map[netip.Prefix]*voteRecord{}}
	if len(g.watched) >= maxWatched {
		return nil, fmt.Errorf("witness: too many owners: %d", maxWatched)
	}
	if owners, _ := g.ofPrefix(w.prefix); w.prefix.IsValid() && owners >= maxWatchedOfPrefix {
		return nil, fmt.Errorf("witness: too many owners in %v: %d", w.prefix, owners)
	}
	g.watched[owner] = w
	return w, nil
}

// ofPrefix returns how many owners are watched, and how many votes were given against them, that
// have addresses of a prefix.
func (g *witnessState) ofPrefix(p netip.Prefix) (owners, votes int) {
	for _, w := range g.watched {
		if w.prefix == p {
			owners++
			votes += len(w.votes)
		}
	}
	return owners, votes
}

// full reports whether n more votes against w are too many.
func (g *witnessState) full(w *watchedPeer, n int) bool {
	if g.voteCount+n > maxVotes || len(w.votes)+n > maxVotesOfOwner {
		return true
	}
	_, votes := g.ofPrefix(w.prefix)
	return w.prefix.IsValid() && votes+n > maxVotesOfPrefix
}

// update stores a set that the owner signed, unless a newer one is known.
func (w *watchedPeer) update(p lease.WitnessSet, sealed []byte) error {
	switch {
	case p.Seq > w.set.Seq:
		w.set, w.sealed, w.durable = p, sealed, false
	case p.Seq == w.set.Seq && !bytes.Equal(sealed, w.sealed):
		return fmt.Errorf("%w: two witness sets of number %d", ErrMessage, p.Seq)
	}
	return nil
}

// onHeartbeat answers a heartbeat that came at now. From then on this peer does not vote
// against the owner for the promise.
func (g *witnessState) onHeartbeat(
	now time.Time, owner peer.ID, from netip.Prefix, b heartbeat,
) (ack, error) {
	w, err := g.watch(owner, from)
	if err != nil {
		return ack{}, err
	}
	if len(b.Set) > 0 {
		p, err := openSet(g.network, b.Set)
		if err == nil && p.Owner != owner {
			err = fmt.Errorf("%w: the witness set is of another owner", ErrMessage)
		}
		if err == nil {
			err = w.update(p, b.Set)
		}
		if err != nil {
			return ack{}, err
		}
	}
	if now.After(w.heard) { // a later heartbeat may have been faster
		w.heard = now
	}
	if b.Incarnation == g.incarnation {
		w.acknowledged = max(w.acknowledged, min(b.LastNotice, g.lastNum))
	}
	a := ack{Known: w.set.Seq, Incarnation: g.incarnation}
	a.Notices, a.More = w.notices(b.Incarnation == g.incarnation, b.LastNotice)
	return a, nil
}

// notices returns the votes of which the owner has not been notified, in the order of
// their numbers: those after last, or all if the owner has not acknowledged any of this
// incarnation.
func (w *watchedPeer) notices(acked bool, last uint64) (list []notice, more bool) {
	for subnet, b := range w.votes {
		if !acked || b.num > last {
			list = append(list, notice{b.num, subnet, b.epoch, b.to})
		}
	}
	order.SortFunc(list, func(a, b notice) int { return cmp.Compare(a.Num, b.Num) })
	if len(list) > maxNotices {
		return list[:maxNotices], true
	}
	return list, false
}

// vote answers the request of candidate to. granted has one element for each proposal,
// false where another candidate has the vote. The caller sends the votes after they are
// on disk.
func (g *witnessState) vote(
	now time.Time, to peer.ID, p lease.WitnessSet, sealed []byte, proposals []proposal,
	attempt uint64,
) (status voteStatus, granted []bool, newer []byte) {
	if p.Owner == g.self {
		return statusHeardOwner, nil, nil
	}
	if !p.Has(g.self) || to == p.Owner {
		return statusNotMember, nil, nil
	}
	promise := g.promise
	if p.Pair() {
		promise = max(promise, AloneAfter)
	}
	if now.Before(g.votesFrom.Add(promise - g.promise)) {
		return statusTooEarly, nil, nil
	}
	// An owner that has named this peer has sent it heartbeats. Of another one it knows nothing.
	w := g.watched[p.Owner]
	switch {
	case w == nil:
		return statusNotMember, nil, nil
	case g.full(w, len(proposals)):
		return statusTooMany, nil, nil
	case w.set.Seq > p.Seq:
		return statusNewerSet, nil, w.sealed
	case w.update(p, sealed) != nil:
		return statusNotMember, nil, nil
	case !w.heard.IsZero() && now.Sub(w.heard) < promise:
		return statusHeardOwner, nil, nil
	case g.strange(to) && now.Sub(clock.Later(w.heard, w.since)) < promise+StrangerAfter:
		return statusStranger, nil, nil
	}
	granted = make([]bool, len(proposals))
	for i, s := range proposals {
		granted[i] = g.voteFor(now, w, to, s, attempt)
	}
	return statusVoted, granted, nil
}

// strange reports whether a candidate has not been known here for long.
func (g *witnessState) strange(candidate peer.ID) bool {
	return g.node != nil && candidate != g.self && !g.node.Origin(candidate).Old
}

// voteFor gives the vote for a proposal to a candidate, unless another one has it. There
// is one vote for a subnet, whatever the epoch. A request that comes after a later one of the same
// candidate gets none: the release of its attempt would end the vote that the later one uses.
func (g *witnessState) voteFor(
	now time.Time, w *watchedPeer, to peer.ID, s proposal, attempt uint64,
) bool {
	b := w.votes[s.Subnet]
	switch {
	case b == nil:
		b = &voteRecord{}
		w.votes[s.Subnet] = b
		g.voteCount++
	case now.Sub(b.at) < VoteLife && (b.to != to || b.epoch != s.Epoch || attempt < b.attempt):
		return false
	}
	g.lastNum++
	*b = voteRecord{epoch: s.Epoch, to: to, at: now, since: now.Round(0), num: g.lastNum,
		attempt: attempt}
	return true
}

// release deletes the votes that candidate to got by that attempt and does not use.
func (g *witnessState) release(
	to, owner peer.ID, proposals []proposal, attempt uint64,
) (gone []netip.Prefix) {
	w := g.watched[owner]
	if w == nil {
		return nil
	}
	for _, s := range proposals {
		b := w.votes[s.Subnet]
		if b != nil && b.to == to && b.attempt == attempt && attempt != 0 {
			delete(w.votes, s.Subnet)
			g.voteCount--
			gone = append(gone, s.Subnet)
		}
	}
	return gone
}

// expire deletes votes that are not needed any more: the owner was notified or they are
// too old, and VoteLife is over; and owners that were silent for long. It returns what was deleted.
func (g *witnessState) expire(
	now time.Time,
) (gone map[peer.ID][]netip.Prefix, forgotten []peer.ID) {
	gone = map[peer.ID][]netip.Prefix{}
	for owner, w := range g.watched {
		for subnet, b := range w.votes {
			over := b.num <= w.acknowledged || now.Round(0).Sub(b.since) > NoticeLife
			if over && now.Sub(b.at) >= VoteLife {
				delete(w.votes, subnet)
				g.voteCount--
				gone[owner] = append(gone[owner], subnet)
			}
		}
		keep := max(g.promise, VoteLife)
		if w.set.Seq > 0 {
			keep = forgetAfter
		}
		if len(w.votes) == 0 && now.Sub(clock.Later(w.heard, w.since)) > keep {
			delete(g.watched, owner)
			forgotten = append(forgotten, owner)
		}
	}
	return gone, forgotten
}
