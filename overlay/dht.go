package overlay

import (
	"context"
	"fmt"
	"maps"
	"time"

	ds "github.com/ipfs/go-datastore"
	dht "github.com/libp2p/go-libp2p-kad-dht"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// refreshPeriod and refreshTimeout keep the routing tables free of dead
	// peers: with the library's 10 minutes one dead peer in three makes every
	// lookup take 5 to 10 s for as long.
	refreshPeriod  = time.Minute
	refreshTimeout = 3 * time.Second
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
