package overlay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/event"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"

	"peerd/internal/backoff"
	"peerd/overlay/admission"
	"peerd/overlay/wire"
)

// ErrOtherNetwork is returned for a peer that answered but is no member of this network:
// it has another profile, or does not run peerd.
var ErrOtherNetwork = errors.New("overlay: peer is not of this network")

const (
	// joinRetryMin and joinRetryMax bound the pause between attempts to join: short at
	// first, because peers are often started together.
	joinRetryMin = 500 * time.Millisecond
	joinRetryMax = 30 * time.Second
	// reconnectInterval is how often a connected peer tries the bootstrap peers that it
	// has lost, and reconnectStep how often it tries up to reconnectBatch of the lost
	// members. That joins the parts of a partitioned network again.
	reconnectInterval = time.Minute
	reconnectStep     = 5 * time.Second
	reconnectBatch    = 4
	// longLostTries is after how many attempts a member counts as long lost.
	longLostTries = 3
	// dialConcurrency is how many peers are tried at the same time, and dialBatch how
	// many of the known peers are tried in one round.
	dialConcurrency = 8
	dialBatch       = 32
)

// joiner keeps a Net connected. It belongs to one Run.
type joiner struct {
	net    *Net
	wakeup backoff.Wake // holds a token when the last member may have been lost
	lost   lostPeers

	// Used only by the goroutine of run:
	candidates    []peer.AddrInfo // known peers not tried yet in this pass
	lastBootstrap time.Time       // when the bootstrap peers were last tried
	lastRefresh   time.Time       // when the routing table was last rebuilt
}

func newJoiner(n *Net) *joiner {
	return &joiner{net: n, wakeup: backoff.NewWake()}
}

// run keeps the Net connected until ctx ends.
func (j *joiner) run(ctx context.Context) error {
	watch := &network.NotifyBundle{DisconnectedF: j.disconnected}
	j.net.Host.Network().Notify(watch)
	defer j.net.Host.Network().StopNotify(watch)

	pause := joinRetryMin
	for {
		began := time.Now()
		attempts, end := j.net.outages.begin(ctx)
		next := backoff.Jitter(reconnectStep)
		if j.net.alone() {
			next = backoff.Jitter(pause)
			if j.try(attempts, j.nextCandidates(), next) {
				next, pause = backoff.Jitter(reconnectStep), joinRetryMin
				j.refresh()
			} else {
				pause = min(2*pause, joinRetryMax)
			}
		} else {
			j.reconnect(attempts, began)
		}
		end()
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-j.wakeup: // at once, but not over and over
			_ = backoff.Sleep(ctx, joinRetryMin-time.Since(began))
		case <-j.net.outages.over:
			j.afterOutage(ctx)
			pause = joinRetryMin
		}
		t.Stop()
		if ctx.Err() != nil {
			return nil
		}
	}
}

// disconnected remembers a lost member, unless this peer has so many connections that
// the connection manager may have closed it, and wakes run if it was the last member.
func (j *joiner) disconnected(nw network.Network, c network.Conn) {
	p := c.RemotePeer()
	if len(nw.ConnsToPeer(p)) > 0 || !j.net.member(p) {
		return
	}
	if len(nw.Peers()) < connsLow {
		j.lost.add(j.net.Host.Peerstore().PeerInfo(p), time.Now(), false)
	}
	if j.net.alone() {
		j.wakeup.Signal()
	}
}

// HandlePeerFound implements mdns.Notifee. A peer that was found is remembered, because it is
// reported only once in 53 minutes, and tried at once and then like a lost member.
func (j *joiner) HandlePeerFound(info peer.AddrInfo) {
	j.net.gate.allowFound(info.Addrs)
	if info.ID == j.net.Self() || wire.Connected(j.net.Host, info.ID) {
		return
	}
	j.lost.add(info, time.Now(), true)
	j.wakeup.Signal()
}

// reconnect tries some of the lost members and, every reconnectInterval, the bootstrap
// peers that are not connected. If a long-lost peer is back, a part of the network may
// be back with it: then the routing table is rebuilt.
func (j *joiner) reconnect(ctx context.Context, now time.Time) {
	connected := func(p peer.ID) bool {
		return wire.Connected(j.net.Host, p)
	}
	infos, tried := j.lost.due(now, reconnectBatch, connected)
	if now.Sub(j.lastBootstrap) >= reconnectInterval {
		j.lastBootstrap = now
		boot := slices.DeleteFunc(j.net.bootstrap(), func(i peer.AddrInfo) bool {
			return connected(i.ID)
		})
		if infos = append(infos, boot...); len(boot) > 0 {
			tried = longLostTries
		}
	}
	if len(infos) > 0 && j.try(ctx, infos, reconnectInterval) && tried >= longLostTries {
		j.refresh()
	}
}

// refresh rebuilds the routing table by lookups, at most once every reconnectInterval.
func (j *joiner) refresh() {
	if now := time.Now(); now.Sub(j.lastRefresh) >= reconnectInterval {
		j.lastRefresh = now
		_ = j.net.DHT.ForceRefresh() // the DHT itself repeats what fails
	}
}

// nextCandidates lists the peers to try next: all bootstrap peers, and the next
// dialBatch of the known peers, until all have been tried. A peer is listed once, with
// all its addresses.
func (j *joiner) nextCandidates() []peer.AddrInfo {
	if len(j.candidates) == 0 {
		j.candidates = j.knownPeers()
	}
	n := min(len(j.candidates), dialBatch)
	some := j.candidates[:n]
	j.candidates = j.candidates[n:]
	return mergeByID(append(j.net.bootstrap(), some...))
}

// knownPeers lists all peers that are known from earlier, in random order and each with
// all known addresses, because some have moved. Refused peers are left out.
func (j *joiner) knownPeers() []peer.AddrInfo {
	store := j.net.Host.Peerstore()
	known := slices.Concat(j.net.cfg.Known, j.lost.list())
	for _, p := range store.PeersWithAddrs() {
		known = append(known, store.PeerInfo(p))
	}
	known = mergeByID(slices.DeleteFunc(known, j.net.skip))
	rand.Shuffle(len(known), func(a, b int) { known[a], known[b] = known[b], known[a] })
	return known
}

// mergeByID merges entries of the same peer, in the order of their first occurrence.
func mergeByID(infos []peer.AddrInfo) []peer.AddrInfo {
	at := make(map[peer.ID]int, len(infos))
	var all []peer.AddrInfo
	for _, i := range infos {
		k, ok := at[i.ID]
		if !ok {
			at[i.ID] = len(all)
			all = append(all, peer.AddrInfo{ID: i.ID, Addrs: slices.Clone(i.Addrs)})
			continue
		}
		all[k].Addrs = ma.Unique(append(all[k].Addrs, i.Addrs...))
	}
	return all
}

// try connects to those of infos that are not connected and reports whether any of them
// is a member now. What fails is tried again after about retry.
func (j *joiner) try(ctx context.Context, infos []peer.AddrInfo, retry time.Duration) bool {
	members := make([]bool, len(infos))
	var g errgroup.Group
	g.SetLimit(dialConcurrency)
	for i, info := range infos {
		g.Go(func() error {
			err := j.net.connect(ctx, info)
			members[i] = err == nil
			if ctx.Err() == nil {
				j.net.attempted(info, err, retry)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no error
	return slices.Contains(members, true)
}

// attempted records and logs the result of an attempt to connect to a peer.
func (n *Net) attempted(info peer.AddrInfo, err error, retry time.Duration) {
	now := time.Now()
	if allWrongID(err) {
		n.refused.add(info.ID, now)
	}
	next := now.Add(retry)
	if at := n.refused.next(info.ID); at.After(next) {
		next = at
	}
	if err != nil {
		n.log.Debug("failed to join through peer", "peer", info.ID, "err", reason(err))
	}
	for _, b := range n.cfg.Bootstrap {
		if b.ID == info.ID {
			n.attempts.record(n.log, b, err, now, next)
		}
	}
}

// connect connects to one peer and checks that it is of this network.
func (n *Net) connect(ctx context.Context, info peer.AddrInfo) error {
	if info.ID == n.Host.ID() {
		return errors.New("overlay: this is the peer itself")
	}
	if !wire.Connected(n.Host, info.ID) {
		// After failed dials the library pauses too; here the pauses are mostly longer.
		// (A forced direct dial would skip its pauses as well, but one that is running
		// while the host closes crashes the process in go-libp2p 0.51.)
		if s, ok := n.Host.Network().(*swarm.Swarm); ok {
			s.Backoff().Clear(info.ID)
		}
		ctx, cancel := context.WithTimeout(ctx, 2*dialTimeout)
		defer cancel()
		if err := n.Host.Connect(ctx, info); err != nil {
			return fmt.Errorf("overlay: connect: %w", err)
		}
	}
	protocols, err := n.Host.Peerstore().GetProtocols(info.ID)
	if err != nil || len(protocols) == 0 {
		return errors.New("overlay: peer has not identified itself in time")
	}
	other, err := n.networkOf(ctx, info.ID)
	switch {
	case err != nil:
		return err
	case other == n.Names.Network():
		if err := n.admit(ctx, info.ID); err != nil {
			return err
		}
		n.refused.remove(info.ID)
		return nil
	case other != "":
		return n.refuseOther(ctx, info.ID, other)
	}
	n.refused.add(info.ID, time.Now())
	_ = n.Host.Network().ClosePeer(info.ID)
	return ErrOtherNetwork
}

// member reports whether p, which has identified itself, is of this network and admitted to it.
func (n *Net) member(p peer.ID) bool {
	return n.ofNetwork(p) && (n.members == nil || n.members.Admitted(p))
}

// Member reports whether p has identified itself as a member of this network.
func (n *Net) Member(p peer.ID) bool { return n.member(p) }

// JoinAddrs returns addresses of connected peers by which a new peer can join: those that this
// peer has dialed itself.
func (n *Net) JoinAddrs() (all []string) {
	for _, conn := range n.Host.Network().Conns() {
		if conn.Stat().Direction == network.DirOutbound &&
			!IsRelayed(conn.RemoteMultiaddr()) && n.member(conn.RemotePeer()) {
			all = append(all,
				conn.RemoteMultiaddr().String()+"/p2p/"+conn.RemotePeer().String())
		}
	}
	return all
}

// ofNetwork reports whether p, which has identified itself, serves this network's DHT.
func (n *Net) ofNetwork(p peer.ID) bool {
	spoken, err := n.Host.Peerstore().SupportsProtocols(p, n.Names.DHT())
	return err == nil && len(spoken) > 0
}

// networkOf returns the network of a peer that has identified itself; "" if it has none. A peer
// that is starting may identify itself before it has registered all its protocols, and tells
// the rest a moment later: networkOf waits closeDelay for it.
func (n *Net) networkOf(ctx context.Context, p peer.ID) (string, error) {
	sub, err := n.Host.EventBus().Subscribe(&event.EvtPeerProtocolsUpdated{})
	if err != nil {
		return "", fmt.Errorf("overlay: identify peer: %w", err)
	}
	defer sub.Close()
	late := time.NewTimer(closeDelay)
	defer late.Stop()
	for {
		if n.ofNetwork(p) {
			return n.Names.Network(), nil
		}
		if other := n.otherNetwork(p); other != "" {
			return other, nil
		}
		select {
		case <-sub.Out():
		case <-late.C:
			return "", nil
		case <-ctx.Done():
			return "", fmt.Errorf("overlay: identify peer: %w", ctx.Err())
		}
	}
}

// admit exchanges memberships with p, which is of this network, and refuses p if that shows that
// one of both is not a member.
func (n *Net) admit(ctx context.Context, p peer.ID) error {
	if n.members == nil {
		return nil
	}
	err := n.members.Admit(ctx, p)
	switch {
	case errors.Is(err, admission.ErrRefused):
		n.refuse(ctx, p, err, "peer refused this one's membership; join the network again",
			"err", reason(err))
	case errors.Is(err, admission.ErrNoMember), errors.Is(err, admission.ErrMembership):
		n.refuse(ctx, p, err, "refused peer that is not a member", "err", reason(err))
	}
	return err
}

// alone reports whether no member of the network is connected.
func (n *Net) alone() bool { return !slices.ContainsFunc(n.Host.Network().Peers(), n.member) }

// bootstrap returns a new list of the bootstrap peers that may be tried now.
func (n *Net) bootstrap() []peer.AddrInfo {
	return slices.DeleteFunc(slices.Clone(n.cfg.Bootstrap), n.skip)
}

// skip reports whether a peer is not to be tried now: it is this peer itself, or was
// refused recently.
func (n *Net) skip(info peer.AddrInfo) bool {
	return info.ID == n.Host.ID() || time.Now().Before(n.refused.next(info.ID))
}
