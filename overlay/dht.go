package overlay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"peerd/internal/backoff"
	"peerd/overlay/wire"
)

const (
	// refreshPeriod is how often the routing table is rebuilt by lookups (Kademlia, section 2.3).
	// A hundred peers send 170 kB each for it. In between prune finds dead peers.
	refreshPeriod  = time.Hour
	refreshTimeout = 3 * time.Second
	// pruneInterval is how often the routing table is searched for dead peers. With the
	// library's 10 minutes, one dead peer in three makes every lookup take 5 to 10 s
	// until then. pruneLive is how many live peers are contacted in one search.
	pruneInterval = time.Minute
	pruneLive     = 2
	// lookupWidth is how many peers a lookup asks at once (alpha of Kademlia,
	// section 2.3). It is below the library's 10 because our tables are smaller.
	lookupWidth = 6
)

// newDHT starts the network's own DHT, which only finds peers. This peer always serves: a mode that
// waits to be proven reachable never serves on a loopback or local network.
func newDHT(
	ctx context.Context, h host.Host, n Names, boot func() []peer.AddrInfo,
) (*dht.IpfsDHT, error) {
	d, err := dht.New(ctx, &meteredHost{Host: h, meters: map[string]*rate.Limiter{}},
		dht.ProtocolPrefix(n.Prefix()),
		dht.Mode(dht.ModeServer),
		dht.BucketSize(numHolders),
		dht.Concurrency(lookupWidth),
		dht.BootstrapPeersFunc(boot),
		dht.RoutingTableRefreshPeriod(refreshPeriod),
		dht.RoutingTableRefreshQueryTimeout(refreshTimeout),
		dht.DisableProviders(),
		dht.DisableValues(), // see Values
		dht.RoutingTablePeerDiversityFilter(newDiverse(h)),
	)
	if err != nil {
		return nil, fmt.Errorf("overlay: start DHT: %w", err)
	}
	return d, nil
}

// runPrune removes dead peers from the routing table until ctx ends. Connected peers are
// alive. Of the others some are tried, in random order, until pruneLive of them have
// answered: a dead peer costs a dial, and only a live one costs bytes.
func (n *Net) runPrune(ctx context.Context) error {
	for backoff.Sleep(ctx, backoff.Jitter(pruneInterval)) == nil {
		n.prune(ctx)
	}
	return nil
}

func (n *Net) prune(ctx context.Context) {
	table := n.DHT.RoutingTable()
	all := slices.DeleteFunc(table.ListPeers(), func(p peer.ID) bool {
		return wire.Connected(n.Host, p)
	})
	rand.Shuffle(len(all), func(a, b int) { all[a], all[b] = all[b], all[a] })
	live := 0
	for len(all) > 0 && live < pruneLive {
		batch := all[:min(len(all), pruneLive-live)]
		all = all[len(batch):]
		alive := make([]bool, len(batch))
		var g errgroup.Group
		for i, p := range batch {
			g.Go(func() error {
				ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
				defer cancel()
				alive[i] = n.Host.Connect(ctx, peer.AddrInfo{ID: p}) == nil
				return nil
			})
		}
		_ = g.Wait() // the functions return no error
		if ctx.Err() != nil {
			return
		}
		for i, p := range batch {
			if alive[i] {
				live++
				continue
			}
			table.RemovePeer(p)
		}
	}
}
