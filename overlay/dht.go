package overlay

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	ds "github.com/ipfs/go-datastore"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/errgroup"
)

const (
	// refreshPeriod is how often the routing table is rebuilt by lookups, which
	// cost most of what a DHT at rest says: a hundred peers that did so each
	// minute would send each other kilobytes a second. Dead peers are found by
	// prune, in between.
	refreshPeriod  = 15 * time.Minute
	refreshTimeout = 3 * time.Second
	// pruneEvery is how often the routing table is searched for dead peers: with
	// the library's 10 minutes one dead peer in three makes every lookup take 5
	// to 10 s for as long. pruneLive is how many living ones are bothered.
	pruneEvery = time.Minute
	pruneLive  = 2
	// lookupWidth is how many peers a lookup asks at once (alpha of Kademlia,
	// section 2.3), less than the library's 10 as our tables are smaller.
	lookupWidth = 6
)

// newDHT starts the network's own DHT. This peer always serves: a mode that
// waits to be proven reachable never serves on a loopback or local network.
func newDHT(ctx context.Context, h host.Host, cfg Config, n Names, store ds.Batching, boot func() []peer.AddrInfo) (*dht.IpfsDHT, error) {
	validators := make(record.NamespacedValidator, len(cfg.Validators))
	maps.Copy(validators, cfg.Validators)
	d, err := dht.New(ctx, h,
		dht.ProtocolPrefix(n.Prefix()),
		dht.Mode(dht.ModeServer),
		dht.Datastore(store),
		dht.Validator(validators),
		dht.BucketSize(cfg.Replicas),
		dht.Concurrency(lookupWidth),
		dht.MaxRecordAge(cfg.RecordAge),
		dht.BootstrapPeersFunc(boot),
		dht.RoutingTableRefreshPeriod(refreshPeriod),
		dht.RoutingTableRefreshQueryTimeout(refreshTimeout),
		dht.DisableProviders(),
	)
	if err != nil {
		return nil, fmt.Errorf("overlay: start DHT: %w", err)
	}
	return d, nil
}

// runPrune removes dead peers from the routing table until ctx ends. Whoever is
// connected lives. Of the others some are tried, in random order, until pruneLive
// of them have answered: the dead cost a dial, only the living cost bytes.
func (n *Net) runPrune(ctx context.Context) error {
	for {
		t := time.NewTimer(jitter(pruneEvery))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
			n.prune(ctx)
		}
	}
}

func (n *Net) prune(ctx context.Context) {
	table := n.DHT.RoutingTable()
	all := slices.DeleteFunc(table.ListPeers(), func(p peer.ID) bool {
		return n.Host.Network().Connectedness(p) == network.Connected
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
