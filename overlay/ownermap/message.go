package ownermap

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// ErrMessage means that bytes are not an announcement: too long, malformed, not validly signed,
// or with leases of several owners or of another network.
var ErrMessage = errors.New("ownermap: bad announcement")

// Bounds of a message.
const (
	maxMessage = 12 << 10 // bytes; gossip allows 16 KiB including its own fields
	maxLeases  = 24
)

// announcement is the gossip message. It contains signed leases of one owner.
type announcement struct {
	Leases [][]byte `cbor:"1,keyasint"`
}

// overhead is the size of the encoding around the leases, and around each lease.
const overhead = 8

// parse returns the leases of a network in a message, and their owner. open is lease.OpenLease, or
// lease.PeekLease to check no signatures. It does not check times. Errors wrap ErrMessage.
func parse(
	raw []byte, network string, open func([]byte) (lease.Lease, error),
) (owner peer.ID, leases []lease.Lease, err error) {
	if len(raw) > maxMessage {
		return "", nil, fmt.Errorf("%w: %d bytes, at most %d", ErrMessage, len(raw), maxMessage)
	}
	var a announcement
	if err := wire.Unmarshal(raw, &a); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if n := len(a.Leases); n == 0 || n > maxLeases {
		return "", nil, fmt.Errorf("%w: %d leases, want 1 to %d", ErrMessage, n, maxLeases)
	}
	for _, sealed := range a.Leases {
		l, err := open(sealed)
		if err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrMessage, err)
		}
		if l.Network != network {
			return "", nil, fmt.Errorf("%w: a lease of network %.60q", ErrMessage, l.Network)
		}
		if len(leases) > 0 && l.Owner != owner {
			return "", nil, fmt.Errorf("%w: leases of %v and %v", ErrMessage, owner, l.Owner)
		}
		owner = l.Owner
		leases = append(leases, l)
	}
	return owner, leases, nil
}
