package overlay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/p2p/net/swarm"
	ma "github.com/multiformats/go-multiaddr"
	"golang.org/x/sync/errgroup"
)

// ErrOtherNetwork says that a peer answered but is no member of this network:
// its profile differs, or it is no peerd at all.
var ErrOtherNetwork = errors.New("overlay: peer is not of this network")

const (
	// aloneFirst and aloneLast bound the pause between attempts to meet
	// somebody: quick at first, as peers are often started together.
	aloneFirst = 500 * time.Millisecond
	aloneLast  = 30 * time.Second
	// mendEvery is how often a peer in company tries the bootstrap peers it has
	// lost, and mendStep how often some of the members that it has lost: this is
	// what joins the halves of a parted network again.
	mendEvery  = time.Minute
	mendStep   = 5 * time.Second
	mendAtMost = 4
	// dialAtOnce is how many peers are tried at the same time, and dialAtMost
	// how many of the known ones in one round.
	dialAtOnce = 8
	dialAtMost = 32
)

// joiner keeps a Net connected. It belongs to one Run.
type joiner struct {
	net    *Net
	lonely chan struct{} // holds a token when the last connection may be gone
	lost   lost

	// Of the goroutine of run alone:
	known  []peer.AddrInfo // who is still to be tried before anybody is again
	mended time.Time       // when the bootstrap peers were last tried
	asked  time.Time       // when the routing table was last rebuilt
}

func newJoiner(n *Net) *joiner {
	return &joiner{net: n, lonely: make(chan struct{}, 1)}
}

// run tries, waits, and tries again until ctx ends.
func (j *joiner) run(ctx context.Context) error {
	watch := &network.NotifyBundle{DisconnectedF: j.disconnected}
	j.net.Host.Network().Notify(watch)
	defer j.net.Host.Network().StopNotify(watch)

	pause := aloneFirst
	for {
		next := jitter(mendStep)
		if j.net.alone() {
			if j.try(ctx, j.everybody()) {
				pause = aloneFirst
				j.refresh()
			} else {
				next, pause = jitter(pause), min(2*pause, aloneLast)
			}
		} else {
			j.mend(ctx, time.Now())
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		case <-j.lonely:
			t.Stop()
		}
	}
}

// disconnected remembers whom this peer has lost, unless it has so many that
// some were let go on purpose, and wakes run if it was the last one.
func (j *joiner) disconnected(nw network.Network, c network.Conn) {
	p := c.RemotePeer()
	left := len(nw.Peers())
	if left < j.net.cfg.ConnsLow && len(nw.ConnsToPeer(p)) == 0 && j.net.member(p) {
		j.lost.note(j.net.Host.Peerstore().PeerInfo(p), time.Now())
	}
	if left == 0 {
		select {
		case j.lonely <- struct{}{}:
		default:
		}
	}
}

// mend tries some of the members that were lost, and now and then the bootstrap
// peers. If one is back that was away for longer, so may be half of the network:
// then the routing table is rebuilt.
func (j *joiner) mend(ctx context.Context, now time.Time) {
	connected := func(p peer.ID) bool { return j.net.Host.Network().Connectedness(p) == network.Connected }
	infos, tried := j.lost.due(now, mendAtMost, connected)
	if now.Sub(j.mended) >= mendEvery {
		j.mended = now
		boot := slices.DeleteFunc(j.net.bootstrap(), func(i peer.AddrInfo) bool { return connected(i.ID) })
		if infos = append(infos, boot...); len(boot) > 0 {
			tried = mendTries
		}
	}
	if len(infos) > 0 && j.try(ctx, infos) && tried >= mendTries {
		j.refresh()
	}
}

// mendTries is how often a member was tried that was away for longer.
const mendTries = 3

// refresh rebuilds the routing table by lookups, not more often than it pays.
func (j *joiner) refresh() {
	if now := time.Now(); now.Sub(j.asked) >= mendEvery {
		j.asked = now
		_ = j.net.DHT.ForceRefresh() // what fails is tried again by the DHT
	}
}

// everybody lists whom a lonely peer may turn to: the bootstrap peers, and some
// of those known from earlier, others each time until all have had their turn.
func (j *joiner) everybody() []peer.AddrInfo {
	if len(j.known) == 0 {
		j.known = j.earlier()
	}
	n := min(len(j.known), dialAtMost)
	some := j.known[:n]
	j.known = j.known[n:]
	return append(j.net.bootstrap(), some...)
}

// earlier lists all that are known from earlier, each with all addresses that
// anybody remembers: some have moved.
func (j *joiner) earlier() []peer.AddrInfo {
	store := j.net.Host.Peerstore()
	known := slices.Concat(j.net.cfg.Known, j.lost.list())
	for _, p := range store.PeersWithAddrs() {
		known = append(known, store.PeerInfo(p))
	}
	at := make(map[peer.ID]int, len(known))
	var all []peer.AddrInfo
	for _, i := range known {
		if i.ID == j.net.Self() {
			continue
		}
		k, ok := at[i.ID]
		if !ok {
			at[i.ID] = len(all)
			all = append(all, peer.AddrInfo{ID: i.ID, Addrs: slices.Clone(i.Addrs)})
			continue
		}
		all[k].Addrs = ma.Unique(append(all[k].Addrs, i.Addrs...))
	}
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	return all
}

// try connects to those of infos that are not connected and reports whether
// any of them is a member now.
func (j *joiner) try(ctx context.Context, infos []peer.AddrInfo) bool {
	met := make([]bool, len(infos))
	var g errgroup.Group
	g.SetLimit(dialAtOnce)
	for i, info := range infos {
		g.Go(func() error {
			err := j.net.connect(ctx, info)
			met[i] = err == nil
			if err != nil && ctx.Err() == nil {
				level := slog.LevelDebug
				if errors.Is(err, ErrOtherNetwork) {
					level = slog.LevelWarn
				}
				j.net.log.Log(ctx, level, "cannot join by peer", "peer", info.ID, "err", err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no error
	return slices.Contains(met, true)
}

// connect connects to one peer and makes sure that it is of this network.
func (n *Net) connect(ctx context.Context, info peer.AddrInfo) error {
	if info.ID == n.Host.ID() {
		return errors.New("overlay: this is the peer itself")
	}
	if n.Host.Network().Connectedness(info.ID) != network.Connected {
		// The pauses after failed dials are longer here than the library's, but
		// for the first few. (Not by a forced direct dial: one that is under way
		// while the host closes brings the process down in go-libp2p 0.51.)
		if s, ok := n.Host.Network().(*swarm.Swarm); ok {
			s.Backoff().Clear(info.ID)
		}
		ctx, cancel := context.WithTimeout(ctx, 2*n.cfg.DialTimeout)
		defer cancel()
		if err := n.Host.Connect(ctx, info); err != nil {
			return fmt.Errorf("overlay: connect: %w", err)
		}
	}
	if spoken, err := n.Host.Peerstore().GetProtocols(info.ID); err != nil || len(spoken) == 0 {
		return errors.New("overlay: peer has not identified itself in time")
	}
	if !n.member(info.ID) {
		_ = n.Host.Network().ClosePeer(info.ID)
		return ErrOtherNetwork
	}
	return nil
}

// member reports whether p, which has identified itself, is of this network.
func (n *Net) member(p peer.ID) bool {
	spoken, err := n.Host.Peerstore().SupportsProtocols(p, n.Names.DHT())
	return err == nil && len(spoken) > 0
}

// alone reports whether no member of the network is connected.
func (n *Net) alone() bool { return !slices.ContainsFunc(n.Host.Network().Peers(), n.member) }

// bootstrap returns a fresh list of the bootstrap peers.
func (n *Net) bootstrap() []peer.AddrInfo {
	return slices.DeleteFunc(slices.Clone(n.cfg.Bootstrap), func(info peer.AddrInfo) bool {
		return info.ID == n.Host.ID()
	})
}

// jitter spreads d over 75 to 125 %, so that peers started together do not act
// together.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + rand.N(d/2)
}
