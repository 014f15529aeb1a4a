package nearest

import (
	"fmt"

	"peerd/coords"
	"peerd/overlay/peers"
)

// Bounds of messages.
const (
	maxFound    = 16      // beacons in a response
	maxRequest  = 4 << 10 // bytes
	maxResponse = maxFound*(4<<10+32) + 1024
	maxReason   = 256 // bytes of a refusal that are quoted in an error
)

// request asks for the K peers nearest to a target.
type request struct {
	Target coords.Proxy `cbor:"1,keyasint"`
	K      int          `cbor:"2,keyasint"`
}

// validate checks a received request. dims is the dimension of the network's coordinate space.
func (a request) validate(dims int) error {
	if a.K < 1 || a.K > maxFound {
		return fmt.Errorf("nearest: %d peers requested, want 1 to %d", a.K, maxFound)
	}
	if err := a.Target.Validate(dims); err != nil {
		return fmt.Errorf("nearest: target: %w", err)
	}
	return nil
}

// response is the reply to a request.
type response struct {
	Found   []peers.RelayedBeacon `cbor:"1,keyasint,omitempty"`
	Refused string                `cbor:"2,keyasint,omitempty"`
}
