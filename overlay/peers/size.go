package peers

import (
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/coords"
	"peerd/overlay/wire"
)

// Sizes are the bytes of what is said, for reckoning with networks that are too
// large to run: those of real messages with typical content.
type Sizes struct {
	// Beacon is a beacon passed on.
	Beacon int
	// Exchange is all that both sides of an exchange say, with no beacon passed
	// on and empty digests.
	Exchange int
	// Entry is one entry of a digest.
	Entry int
	// Word is telling one peer the own beacon.
	Word int
}

// Parts is into how many parts a directory of so many peers is divided, of which
// each digest covers one in turn.
func (Sizes) Parts(known int) int { return max(1, min(known/partSize, maxParts)) }

// EarlyMost is how many beacons in a row may be early.
const EarlyMost = earlyMost

// MeasureSizes encodes one of each message, for a network's topic and protocol
// and a space of dims dimensions.
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
	now := time.Unix(1_800_000_000, 123_456_789).UTC() // as long as most are
	sealed, err := Seal(key, topic, Beacon{
		Peer: id, At: coarse(at), Wait: 1234567890, Capacity: 1, Version: "0.1.0",
		Seq: uint64(now.UnixMilli()), Time: now, Every: 45 * time.Second,
		Addrs: []string{"/ip4/198.51.100.123/tcp/40123", "/ip4/198.51.100.123/udp/40123/quic-v1"},
	})
	if err != nil {
		return Sizes{}, err
	}
	var sum counter
	w := &wish{Have: make(digest, digestSalt), Reach: 12.345678, Most: others}
	messages := []any{hello{Beacon: sealed, Wish: w}, welcome{Beacon: sealed, Wish: w}, done{At: at}}
	for i := range rounds {
		messages = append(messages, ping{Round: i}, pong{At: at})
	}
	for _, m := range messages {
		if err := wire.WriteMsg(&sum, m); err != nil {
			return Sizes{}, err
		}
	}
	exchange := int(sum)
	sum = 0
	if err := wire.WriteMsg(&sum, hello{Beacon: sealed, Word: true}); err != nil {
		return Sizes{}, err
	}
	// Each side of a stream says which protocol of libp2p and of ours it means.
	negotiation := 2 * (len("/multistream/1.0.0\n") + 1 + len(proto) + 2)
	return Sizes{
		Beacon: len(sealed) + 12, Exchange: exchange + negotiation, Entry: digestEntry, Word: int(sum) + negotiation,
	}, nil
}

// counter counts what is written to it.
type counter int

func (c *counter) Write(b []byte) (int, error) {
	*c += counter(len(b))
	return len(b), nil
}
