package node

import (
	"context"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/node/traffic"
	"peerd/overlay"
	"peerd/overlay/lease"
	"peerd/overlay/owner"
	"peerd/overlay/peers"
	nets "peerd/overlay/prefix"
	"peerd/overlay/replica"
	"peerd/overlay/wire"
	"peerd/overlay/witness"
)

// openFailover builds what keeps subnets alive when their owner fails: replicas and, unless this
// peer is alone, witnesses.
func (n *Node) openFailover() (err error) {
	n.replicas, err = replica.New(replica.Config{
		Host: n.monitoredHost(), Protocol: n.net.Names.Replica(),
		QueryProtocol: n.net.Names.Copies(), DB: n.db, URLs: urlChecker{n},
		BatchDelay: n.opts.scaled(200 * time.Millisecond), Redial: n.opts.scaled(time.Second),
		Uptime: uptime, Logger: n.log,
	})
	if err != nil || n.opts.Alone {
		return err
	}
	wc := witness.DefaultConfig()
	wc.Host, wc.Key, wc.Protocol = n.monitoredHost(), n.key, n.net.Names.Witness()
	wc.Network = n.net.Names.Network()
	wc.Node, wc.Store, wc.Logger = witnessed{n}, witness.OnDB(n.db), n.log
	n.witness, err = witness.New(wc)
	return err
}

// witnessed is the witness.Node of a Node, of which some parts are built after the witness.
type witnessed struct{ n *Node }

func (w witnessed) SendHeartbeat(ctx context.Context, p peer.ID, payload []byte) ([]byte, error) {
	return w.n.peers.SendHeartbeat(ctx, p, payload)
}

func (w witnessed) Revoked(ctx context.Context, rs []witness.Revocation) error {
	return w.n.manager.Revoked(ctx, rs)
}

func (w witnessed) RereadLeases() { w.n.manager.SuspectTakeover() }

// LivePeers lists the peers that the directory holds alive.
func (w witnessed) LivePeers() []peer.ID {
	all := w.n.peers.Directory().All()
	ids := make([]peer.ID, 0, len(all))
	for _, b := range all {
		ids = append(ids, b.Peer)
	}
	return ids
}

// Owns reports whether this peer has a subnet.
func (w witnessed) Owns() bool { return w.n.manager.Owns() }

// Origin implements witness.Node. The network is that of the address from which the peer is
// connected, or else of one that it announces. The source of a connection within this machine
// says nothing.
func (w witnessed) Origin(p peer.ID) (o witness.Origin) {
	o.Old = w.n.knownForLong(p, time.Now())
	for _, c := range w.n.net.Host.Network().ConnsToPeer(p) {
		ip, ok := nets.Of(c.RemoteMultiaddr())
		if ok && (c.Stat().Direction == network.DirOutbound || !ip.IsLoopback()) {
			o.Network = nets.Wide(ip)
			return o
		}
	}
	b, _ := w.n.peers.Directory().Get(p)
	for _, a := range b.Info().Addrs {
		if ip, ok := nets.Of(a); ok {
			o.Network = nets.Wide(ip)
			return o
		}
	}
	return o
}

// knownForLong reports whether this peer has met another one at least ten minutes ago, or soon
// after its own start: it cannot know then who was a member before.
func (n *Node) knownForLong(p peer.ID, now time.Time) bool {
	since, met := wire.Met(n.net.Host.Peerstore(), p)
	return met && (now.Sub(since) >= wire.OldAfter ||
		since.Before(n.started.Add(peers.JoiningFor)))
}

// lastHeard returns when another peer was last heard, by this peer or by one that told of it, by
// the system clock; the zero time: never.
func (n *Node) lastHeard(p peer.ID) time.Time {
	if !n.peersReady.Load() { // the DHT calls this before everything is built
		return time.Time{}
	}
	return n.peers.Directory().Liveness(p).Heard
}

// Absences returns the absences of other peers that were found to be over since then.
func (o ownerNode) Absences(since time.Time) (all []owner.Absence) {
	for _, a := range o.n.peers.Directory().Absences(since) {
		all = append(all, owner.Absence{From: a.From, To: a.To})
	}
	return all
}

// How a Judge takes the silence of a peer.
const (
	// slack is the part of a silence, at its ends, that clocks and messages may differ by.
	slack = lease.Skew
	// contestFor is how long a peer that is back may show what it did while it was away.
	contestFor = 15 * time.Minute
	// before is how long before a peer was last heard it may have missed what came to be known.
	before = time.Minute
)

// contacts tells the Judge what this peer knows of others.
type contacts struct{ n *Node }

// Silent reports whether this peer knows that another one, or itself, was not heard in a time, by
// the clock that it uses with others.
func (c contacts) Silent(p peer.ID, from, to time.Time) bool {
	n := c.n
	if !n.peersReady.Load() { // the DHT calls this before everything is built
		return false
	}
	offset := n.clockOffset()
	from, to = from.Add(slack-offset), to.Add(-slack-offset)
	if p == n.net.Self() {
		return n.manager.Inactive(from, to)
	}
	return wasSilent(n.manager.AwakeSince(time.Now()), n.lastHeard(p), n.absence(p), from, to)
}

// wasSilent reports whether a peer was silent in a time, as far as one knows that has run and not
// slept since awake: heard is when it was last heard, away its last absence.
func wasSilent(awake, heard time.Time, away peers.Absence, from, to time.Time) bool {
	switch {
	case awake.After(from):
		return false
	case heard.Before(from):
		return true
	}
	return away.From.Before(from) && !away.To.Before(to)
}

// Apart reports whether a peer that was known before, or joined such peers, may not have known what
// came to be known here at a time, by the clock that this peer uses with others: it was away then,
// and is back just now.
func (c contacts) Apart(p peer.ID, at time.Time) bool {
	n := c.n
	if !n.peersReady.Load() {
		return false
	}
	away := n.absence(p)
	if away.From.IsZero() {
		since, joined := n.peers.JoinedElsewhere(p)
		if away.From = since; since.IsZero() && (joined || n.knewBefore(p)) {
			away.From = n.started.Add(-contestFor) // it may have been away when this peer started
		}
	}
	return wasApart(n.lastHeard(p), away, at.Add(-n.clockOffset()), time.Now())
}

// knewBefore reports whether a peer was a member before this one started: it was met in an earlier
// run, or others have said so.
func (n *Node) knewBefore(p peer.ID) bool {
	away, _ := n.peers.Absent(p)
	return away || n.acquainted[p]
}

// Joined reports whether a peer joined while another one was away.
func (c contacts) Joined(p, while peer.ID) bool {
	return c.n.peersReady.Load() && c.n.peers.Joined(p, while)
}

// wasApart reports whether a peer was away at a time, and is so still or came back just now: heard
// is when it was last heard, away its last absence.
func wasApart(heard time.Time, away peers.Absence, at, now time.Time) bool {
	at = at.Add(before)
	if !heard.IsZero() && now.Sub(heard) > before/2 && heard.Before(at) {
		return true // it is away
	}
	return !away.From.IsZero() && now.Sub(away.To) <= contestFor && away.From.Before(at) &&
		!at.After(away.To.Add(2*before))
}

// Nearest returns the old members nearest to the key of a subnet's lease, this peer among them. In
// a network that may be so large that peers do not know all others it returns none.
func (c contacts) Nearest(subnet netip.Prefix) (all []peer.ID) {
	n := c.n
	if !n.peersReady.Load() {
		return nil
	}
	now, present := time.Now(), n.peers.Directory().All()
	if len(present) >= peers.DefaultConfig().MaxPeers {
		return nil
	}
	for _, b := range present {
		if b.Peer != n.net.Self() && n.knownForLong(b.Peer, now) {
			all = append(all, b.Peer)
		}
	}
	return overlay.NearestTo(lease.Key(subnet), append(all, n.net.Self()))
}

// absence returns the last absence of a peer; a zero one if there is none.
func (n *Node) absence(p peer.ID) peers.Absence {
	for _, a := range n.peers.Directory().Absences(time.Time{}) {
		if a.Peer == p {
			return a
		}
	}
	return peers.Absence{}
}

// clockOffset is how far the clock that this peer uses with others is ahead of the system clock.
func (n *Node) clockOffset() time.Duration {
	return time.Until(n.opts.clock().Now())
}

// fetchRetry is the time after which the frontier checks the quorum lease and the network again.
const fetchRetry = 250 * time.Millisecond

// fetchWait returns the time until pages may be fetched: not outside the hours, not beyond the
// limits, not without the quorum lease, not while the network is down, and not while another
// process has the key of this peer.
func (n *Node) fetchWait(now time.Time) time.Duration {
	if wait := n.quota.Wait(now); wait > 0 {
		return wait
	}
	if !n.network.Online() || !n.manager.HasQuorumLease() || n.peers.Twin() {
		return fetchRetry
	}
	if n.traffic.Queue(traffic.Crawl) >= maxWaitingReads {
		return trafficRetry // more fetches at once would only be slower
	}
	return 0
}
