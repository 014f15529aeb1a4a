package witness

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
)

// The explorer visits every state of three peers that own one subnet in turn. Each of them runs
// the code of a live peer: the machine of package ownership, the states of an owner and of a
// witness of this package, and the judge of package lease. The rest is a model of what package
// owner and package replica do with them: messages, a DHT with a record holder at each peer,
// copies, takeovers, handovers, restarts. A scenario bounds what can happen, and every choice
// within the bound is tried. Messages arrive in the order in which they were sent and before
// anything else happens; any other order is a delay, which counts as a fault.
//
// What no owner does at present is left out: witness sets do not change, no subnet is without an
// owner, and none is recreated.

const (
	exPeers = 3
	exNone  = -1
	exTick  = 5 * time.Second // by the fastest clock
	exLong  = 26              // ticks of "two minutes pass"
)

// The times of package owner.
const (
	exSilence = 20 * time.Second
	exLost    = 25 * time.Second
	exFirst   = time.Minute
	exOrphan  = 2 * time.Minute
)

var (
	exSubnet = netip.MustParsePrefix("192.0.2.0/24")
	exStart  = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
)

// exData is a set of URLs.
type exData uint8

// exCopy is a copy of the subnet at a peer that does not own it.
type exCopy struct {
	of        lease.Lease // the owner's
	complete  bool
	confirmed time.Time // the last reply that the owner is known to have; zero: none
	replied   time.Time // the last reply
}

func (c exCopy) held() bool { return c.of.Epoch > 0 }

// exReplica is what an owner knows of a replica.
type exReplica struct {
	chosen, synced bool
	well           time.Time
	has            exData
	replied        time.Time // by the replica's clock, in its last reply
	until          time.Time // synced until then without a reply
}

// exVote is a takeover that a peer tries.
type exVote struct {
	attempt uint64
	owner   int
	ended   lease.Lease
	until   time.Time
	by      []peer.ID
	won     bool // there are enough votes
	read    bool // the DHT was read since
}

// exDisk is what is on a peer's disk.
type exDisk struct {
	unit     ownership.Unit
	lease    lease.Lease
	replicas [exPeers]bool
	copy     exCopy
	urls     exData
	outbox   exData      // URLs on their way to the owner
	record   lease.Lease // as a record holder of the DHT
	votes    [exPeers]map[netip.Prefix]storedVote
	sets     [exPeers]bool // witness sets that are known
	awake    time.Time
	fresh    bool // it was lost
}

// exSeen is when a step was first seen.
type exSeen struct {
	step lease.Lease
	at   time.Time
}

// exPeer is a peer: what is in its memory, and its disk.
type exPeer struct {
	up      bool
	rate    time.Duration // what its clock shows for a tick
	started time.Time
	awake   time.Time // when it ran before that
	runs    uint64

	unit     ownership.Unit
	votes    ownership.Votes
	lease    lease.Lease // of the unit
	renewAt  time.Time   // zero: not soon
	since    time.Time
	copied   time.Time // when a replica last had everything
	replicas [exPeers]exReplica
	shunned  [exPeers]time.Time // dropped replicas, until when they are not chosen

	copy    exCopy
	known   lease.Lease
	seen    []exSeen
	heard   [exPeers]time.Time
	told    [exPeers]time.Time // when others had heard a peer, as they say
	owner   *ownerState
	witness *witnessState
	attempt uint64
	vote    *exVote

	disk exDisk
}

// exWhat is the content of a message.
type exWhat uint8

const (
	exHeartbeat exWhat = iota
	exAck
	exAsk // for a vote
	exVoted
	exRelease
	exPulse // from an owner to a replica, with URLs
	exPulseReply
	exOffer
	exPrepared
	exCommit
	exDone
	exUnready // the successor has no current copy
)

var exWhats = []string{"heartbeat", "ack", "vote request", "vote", "release", "pulse",
	"pulse reply", "offer", "prepared", "commit", "done", "not ready"}

// exMessage is on its way from one peer to another. Stamp is a time by the sender's clock that
// comes back with the answer.
type exMessage struct {
	from, to int
	what     exWhat
	stamp    time.Time
	got      time.Time // by the receiver's clock
	beat     heartbeat
	ack      ack
	run      uint64 // of the process that asked: no other gets the answer
	lease    lease.Lease
	attempt  uint64
	granted  bool
	urls     exData
}

func (x exMessage) String() string {
	return fmt.Sprintf("%s from %c to %c", exWhats[x.what], 'A'+x.from, 'A'+x.to)
}

// exWorld is one state of the model.
type exWorld struct {
	peers [exPeers]exPeer
	net   []exMessage // on their way, in the order of delivery
	late  []exMessage // delayed: they arrive at any time, or never
	cut   [exPeers][exPeers]bool
	ticks int
	left  exBudget

	// What no peer knows.
	acked  exData // URLs that were acknowledged
	served exData // URLs that exist
	broken string // the first invariant that does not hold
}

// exBudget bounds what happens.
type exBudget struct{ Faults, Ticks, Longs, Writes, Moves, Attempts, Reads int8 }

// exIDs are the peers' IDs; exSets their witness sets.
type exNames struct {
	ids  [exPeers]peer.ID
	sets [exPeers]sealedSet
}

func (n *exNames) index(id peer.ID) int { return slices.Index(n.ids[:], id) }

// clone returns a copy that shares nothing that changes.
func (w *exWorld) clone() *exWorld {
	c := *w
	c.net, c.late = slices.Clone(w.net), slices.Clone(w.late)
	for i := range c.peers {
		p := &c.peers[i]
		p.seen = slices.Clone(p.seen)
		if p.owner != nil {
			o := *p.owner
			o.members = make(map[peer.ID]*member, len(p.owner.members))
			for id, m := range p.owner.members {
				is := *m
				o.members[id] = &is
			}
			p.owner = &o
		}
		if p.witness != nil {
			s := *p.witness
			s.watched = make(map[peer.ID]*watchedPeer, len(p.witness.watched))
			for id, x := range p.witness.watched {
				is := *x
				is.votes = make(map[netip.Prefix]*voteRecord, len(x.votes))
				for k, v := range x.votes {
					vote := *v
					is.votes[k] = &vote
				}
				s.watched[id] = &is
			}
			p.witness = &s
		}
		if p.vote != nil {
			v := *p.vote
			v.by = slices.Clone(v.by)
			p.vote = &v
		}
		for k := range p.disk.votes {
			p.disk.votes[k] = maps.Clone(p.disk.votes[k])
		}
	}
	return &c
}

// clock returns the time by a peer's clock.
func (w *exWorld) clock(p int) time.Time {
	return exStart.Add(time.Duration(w.ticks) * w.peers[p].rate)
}

func (w *exWorld) fail(format string, args ...any) {
	if w.broken == "" {
		w.broken = fmt.Sprintf(format, args...)
	}
}

// send puts a message on its way, unless the link is cut.
func (w *exWorld) send(x exMessage) {
	if !w.cut[x.from][x.to] {
		if !x.isAnswer() {
			x.run = w.peers[x.from].runs
		}
		w.net = append(w.net, x)
	}
}

// disks returns the URLs that are on any disk.
func (w *exWorld) disks() (all exData) {
	for i := range w.peers {
		all |= w.peers[i].disk.urls | w.peers[i].disk.outbox
	}
	return all
}
