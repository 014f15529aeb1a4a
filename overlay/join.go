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
	// lost, which is what joins the halves of a parted network again.
	mendEvery = time.Minute
	// dialAtOnce is how many peers are tried at the same time, and dialAtMost
	// how many of the known ones in one round.
	dialAtOnce = 8
	dialAtMost = 32
)

// joiner keeps a Net connected. It belongs to one Run.
type joiner struct {
	net    *Net
	lonely chan struct{} // holds a token when the last connection may be gone
}

func newJoiner(n *Net) *joiner {
	return &joiner{net: n, lonely: make(chan struct{}, 1)}
}

// run tries, waits, and tries again until ctx ends.
func (j *joiner) run(ctx context.Context) error {
	watch := &network.NotifyBundle{DisconnectedF: func(nw network.Network, _ network.Conn) {
		if len(nw.Peers()) == 0 {
			select {
			case j.lonely <- struct{}{}:
			default:
			}
		}
	}}
	j.net.Host.Network().Notify(watch)
	defer j.net.Host.Network().StopNotify(watch)

	pause := aloneFirst
	for {
		next := jitter(mendEvery)
		if j.alone() {
			if j.try(ctx, j.everybody()) {
				pause = aloneFirst
				_ = j.net.DHT.Bootstrap(ctx) // only asks for a refresh; never fails
			} else {
				next, pause = jitter(pause), min(2*pause, aloneLast)
			}
		} else {
			j.try(ctx, j.net.bootstrap())
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

// alone reports whether no member of the network is connected.
func (j *joiner) alone() bool {
	return !slices.ContainsFunc(j.net.Host.Network().Peers(), j.net.member)
}

// everybody lists whom a lonely peer may turn to: the bootstrap peers, and some
// of those known from earlier.
func (j *joiner) everybody() []peer.AddrInfo {
	known := slices.Clone(j.net.cfg.Known)
	store := j.net.Host.Peerstore()
	for _, p := range store.PeersWithAddrs() {
		known = append(known, store.PeerInfo(p))
	}
	rand.Shuffle(len(known), func(a, b int) { known[a], known[b] = known[b], known[a] })
	return append(j.net.bootstrap(), known[:min(len(known), dialAtMost)]...)
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
		// Forced, the dial ignores the pause after a failed one: the pauses
		// here are longer, but for the first few.
		ctx, cancel := context.WithTimeout(network.WithForceDirectDial(ctx, "join"), 2*n.cfg.DialTimeout)
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
