package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"
)

const (
	// gossipQueue is how many messages may wait to be checked, and to be sent
	// to each peer. The library's 32 lose half of what a few hundred peers say
	// at once, without a word to anybody.
	gossipQueue = 512
	// maxGossip bounds a message. Beacons have some hundred bytes. Bytes.
	maxGossip = 16 << 10
)

// newGossip starts gossipsub under the network's own protocol identifier. It
// ends with ctx.
//
// Messages carry no author and no signature of gossipsub's: whatever is
// gossiped here is sealed by its author anyway, because it also travels over
// streams. A message is known by the digest of its bytes.
func newGossip(ctx context.Context, h host.Host, n Names, log *slog.Logger) (*pubsub.PubSub, error) {
	ps, err := pubsub.NewGossipSub(ctx, h,
		pubsub.WithGossipSubProtocols([]protocol.ID{n.Gossip()}, gossipFeatures),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(messageID),
		pubsub.WithMaxMessageSize(maxGossip),
		pubsub.WithValidateQueueSize(gossipQueue),
		pubsub.WithPeerOutboundQueueSize(gossipQueue),
		pubsub.WithLogger(slog.New(quiet{log.Handler()})),
	)
	if err != nil {
		return nil, fmt.Errorf("overlay: start gossip: %w", err)
	}
	return ps, nil
}

// gossipFeatures says what our one protocol can do: all of meshsub 1.2.
func gossipFeatures(f pubsub.GossipSubFeature, _ protocol.ID) bool {
	switch f {
	case pubsub.GossipSubFeatureMesh, pubsub.GossipSubFeaturePX, pubsub.GossipSubFeatureIdontwant:
		return true
	}
	return false
}

func messageID(m *pb.Message) string {
	sum := sha256.Sum256(append([]byte(m.GetTopic()+"\x00"), m.GetData()...))
	return string(sum[:])
}

// quiet passes on what a library warns of and drops its chatter.
type quiet struct{ slog.Handler }

func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}
