package overlay

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"slices"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/protocol"
	manet "github.com/multiformats/go-multiaddr/net"
)

const (
	// gossipQueue is how many messages may wait to be validated, and to be sent
	// to each peer. With the library's 32, half of what a few hundred peers publish
	// at once is dropped without notice.
	gossipQueue = 512
	// maxGossip bounds a message; beacons have some hundred bytes. Bytes.
	maxGossip = 16 << 10
	// maxMesh is to how many peers a message is forwarded (D_high of gossipsub). The library cuts
	// a mesh of more than 12 down to 6 (D), so that in a small network all peers forward each
	// message to nearly all others.
	maxMesh = 7
)

// newGossip starts gossipsub under the network's own protocol identifier. It
// ends with ctx.
//
// Messages carry neither an author nor a signature of gossipsub: their authors seal
// them, because they also travel over streams. The identifier of a message is the
// digest of its bytes.
func newGossip(
	ctx context.Context, h host.Host, n Names, libLog *slog.Logger,
) (*pubsub.PubSub, error) {
	params := pubsub.DefaultGossipSubParams()
	params.Dhi = maxMesh
	ps, err := pubsub.NewGossipSub(ctx, h,
		pubsub.WithGossipSubParams(params),
		pubsub.WithGossipSubProtocols([]protocol.ID{n.Gossip()}, gossipFeatures),
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign),
		pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(messageID),
		pubsub.WithMaxMessageSize(maxGossip),
		pubsub.WithValidateQueueSize(gossipQueue),
		pubsub.WithPeerOutboundQueueSize(gossipQueue),
		pubsub.WithLogger(libLog),
		pubsub.WithPeerScore(scores(n)),
		pubsub.WithPeerExchange(false), // peers are known by their beacons
		pubsub.WithSubscriptionFilter(pubsub.WrapLimitSubscriptionFilter(
			pubsub.NewAllowlistSubscriptionFilter(n.Topics()...), maxSubscriptions)),
	)
	if err != nil {
		return nil, fmt.Errorf("overlay: start gossip: %w", err)
	}
	return ps, nil
}

// Scores of peers (gossipsub v1.1, sections "Peer Scoring" and "Score Thresholds"). Scores only
// fall: no behaviour makes up for a bad one, but time does.
const (
	// invalidWeight is for the square of the number of invalid messages (P4). The third one
	// ends gossip with their sender, and the fifth its messages.
	invalidWeight = -10
	// colocationWeight is for the square of the number of peers with one public address above
	// colocationMost (P6): more peers behind one address may be one that pretends to be many.
	colocationWeight, colocationMost = -5, 16
	// behaviourWeight is for the square of broken promises above behaviourMost (P7).
	behaviourWeight, behaviourMost = -5, 6
	// scoreDecay is what is left of a counter after scoreInterval: half after 7 minutes.
	scoreDecay    = 0.9
	scoreInterval = time.Minute
	// retainScore is how long a score outlives the connection.
	retainScore = time.Hour
	// No gossip below gossipAbove, no messages to peers below publishAbove, and none from
	// peers below acceptAbove.
	gossipAbove, publishAbove, acceptAbove = -50, -100, -200
	// neverPX is a score that no peer reaches: lists of peers in PRUNE are ignored.
	neverPX = 1e9
	// maxSubscriptions bounds the subscriptions in one message; there are two topics.
	maxSubscriptions = 8
)

// scores returns how gossip scores peers, and which scores are too low.
func scores(n Names) (*pubsub.PeerScoreParams, *pubsub.PeerScoreThresholds) {
	local := slices.Concat(manet.Private4, manet.Private6) // testnets, and whole sites
	topics := map[string]*pubsub.TopicScoreParams{}
	for _, t := range n.Topics() {
		topics[t] = &pubsub.TopicScoreParams{
			SkipAtomicValidation:           true,
			TopicWeight:                    1,
			TimeInMeshQuantum:              time.Second, // unused, but a divisor
			InvalidMessageDeliveriesWeight: invalidWeight,
			InvalidMessageDeliveriesDecay:  scoreDecay,
		}
	}
	return &pubsub.PeerScoreParams{
			SkipAtomicValidation:        true, // the other parameters are not used
			Topics:                      topics,
			IPColocationFactorWeight:    colocationWeight,
			IPColocationFactorThreshold: colocationMost,
			IPColocationFactorWhitelist: local,
			BehaviourPenaltyWeight:      behaviourWeight,
			BehaviourPenaltyThreshold:   behaviourMost,
			BehaviourPenaltyDecay:       scoreDecay,
			DecayInterval:               scoreInterval,
			DecayToZero:                 0.01,
			RetainScore:                 retainScore,
		}, &pubsub.PeerScoreThresholds{
			GossipThreshold: gossipAbove, PublishThreshold: publishAbove,
			GraylistThreshold: acceptAbove, AcceptPXThreshold: neverPX,
		}
}

// gossipFeatures reports the features of our one protocol: all of meshsub 1.2.
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
