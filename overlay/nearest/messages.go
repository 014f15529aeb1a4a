package nearest

import (
	"fmt"

	"peerd/coords"
	"peerd/overlay/peers"
)

// Bounds.
const (
	maxFound  = 16      // beacons in an answer
	maxAsk    = 4 << 10 // bytes
	maxAnswer = maxFound*(4<<10+32) + 1024
	maxReason = 256 // bytes of a refusal that are repeated in an error
)

// ask wants to know who is near a target.
type ask struct {
	Target coords.Proxy `cbor:"1,keyasint"`
	K      int          `cbor:"2,keyasint"`
}

// validate bounds a foreign ask. dims is that of the network's space.
func (a ask) validate(dims int) error {
	if a.K < 1 || a.K > maxFound {
		return fmt.Errorf("nearest: %d peers are wanted, want 1 to %d", a.K, maxFound)
	}
	if err := a.Target.Validate(dims); err != nil {
		return fmt.Errorf("nearest: target: %w", err)
	}
	return nil
}

// answer tells it.
type answer struct {
	Found   []peers.Aged `cbor:"1,keyasint,omitempty"`
	Refused string       `cbor:"2,keyasint,omitempty"`
}
