package atlas

import (
	"errors"
	"fmt"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

// ErrMessage says that bytes are no announcement: too long, malformed, not
// validly signed, or of several owners.
var ErrMessage = errors.New("atlas: bad announcement")

// Bounds of a message.
const (
	maxMessage = 12 << 10 // bytes; gossip takes 16 KiB with what it adds
	maxLeases  = 24
)

// announcement is the message: sealed leases of one owner.
type announcement struct {
	Leases [][]byte `cbor:"1,keyasint"`
}

// overhead is what a message and each lease in it take beyond the leases.
const overhead = 8

// parse returns the leases in a message, all of one owner. It looks at no
// clock. The errors wrap ErrMessage.
func parse(raw []byte) (owner peer.ID, leases []lease.Lease, err error) {
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
		l, err := lease.OpenLease(sealed)
		if err != nil {
			return "", nil, fmt.Errorf("%w: %w", ErrMessage, err)
		}
		if len(leases) > 0 && l.Owner != owner {
			return "", nil, fmt.Errorf("%w: it speaks for %v and %v", ErrMessage, owner, l.Owner)
		}
		owner = l.Owner
		leases = append(leases, l)
	}
	return owner, leases, nil
}
