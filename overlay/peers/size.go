package peers

import (
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/coords"
	"peerd/overlay/wire"
)

// Sizes are the sizes of messages in bytes, for estimates about networks that are too large to
// run. They are measured on real messages with typical content.
type Sizes struct {
	// Beacon is a relayed beacon.
	Beacon int
	// Exchange is the total of both directions of an exchange that relays no beacon and has
	// empty digests.
	Exchange int
	// Entry is one entry of a digest.
	Entry int
	// Push is one pushed beacon and its answer.
	Push int
}

// Parts returns the number of parts into which a directory of that many peers is divided. Each
// digest covers one of them in turn.
func (Sizes) Parts(known int) int { return max(1, min(known/partSize, maxParts)) }

// EarlyBurst is how many beacons in a row may be made before they are due.
const EarlyBurst = earlyBurst

// MeasureSizes encodes one message of each kind for a topic, a protocol and a coordinate space
// of dims dimensions.
func MeasureSizes(topic string, proto protocol.ID, dims int) (Sizes, error) {
	key, _, err := crypto.GenerateEd25519Key(nil)
	if err != nil {
		return Sizes{}, err
	}
	id, err := peer.IDFromPrivateKey(key)
	if err != nil {
		return Sizes{}, err
	}
	at := coords.Coordinate{Vec: make([]float64, dims), Height: 1.2345678, Error: 0.12345678}
	for i := range at.Vec {
		at.Vec[i] = float64(i+1) * 12.345678
	}
	now := time.Unix(1_800_000_000, 123_456_789).UTC() // encoded as long as most times are
	sealed, err := Seal(key, topic, Beacon{
		Peer: id, At: rounded(at), Wait: 1234567890, Capacity: 1, Version: "0.1.0",
		Seq: uint64(now.UnixMilli()), Time: now, Interval: 45 * time.Second,
		Addrs: []string{"/ip4/198.51.100.123/tcp/40123", "/ip4/198.51.100.123/udp/40123/quic-v1"},
		Traits: &coords.Traits{Lag: coords.Normal{Mean: 12.5, Variance: 36.125},
			PerKB: coords.Normal{Mean: 0.125, Variance: 0.015625}},
		Trips: make(Trips, coords.TripsMax*tripSize),
	})
	if err != nil {
		return Sizes{}, err
	}
	var sum counter
	w := &syncRequest{Digest: make(digest, digestSalt), Radius: 12.345678, MaxBeacons: maxLaterSync}
	messages := []any{hello{Beacon: sealed, Sync: w}, welcome{Beacon: sealed, Sync: w},
		done{At: at}}
	for i := range int64(pingRounds) {
		messages = append(messages, ping{Round: maxExchangeID + i}, pong{At: at})
	}
	for _, m := range messages {
		if err := wire.WriteMsg(&sum, m); err != nil {
			return Sizes{}, err
		}
	}
	exchange := int(sum)
	sum = 0
	for _, h := range []heartbeat{{Beacon: sealed}, {}} {
		if err := wire.WriteMsg(&sum, h); err != nil {
			return Sizes{}, err
		}
	}
	// Each side of a stream names multistream and the protocol.
	negotiation := 2 * (len("/multistream/1.0.0\n") + 1 + len(proto) + 2)
	return Sizes{
		Beacon: len(sealed) + 12, Exchange: exchange + negotiation, Entry: digestEntry,
		Push: int(sum),
	}, nil
}

// counter counts the bytes written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
