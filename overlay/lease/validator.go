package lease

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"
)

// Namespace is the part of the DHT's key space that leases live in.
const Namespace = "peerd-lease"

// Key returns the DHT key of the lease of subnet: /peerd-lease/<prefix>.
func Key(subnet netip.Prefix) string { return "/" + Namespace + "/" + subnet.String() }

// Validator judges leases for the DHT. It has no state, asks nothing but its two
// hooks, and may be used by many at once.
type Validator struct {
	// Now is the clock. Nil means time.Now.
	Now func() time.Time
	// Heard returns when this peer last heard of another, in whatever way; the
	// zero time for never. It must answer from memory. Nil: never of anybody.
	Heard func(peer.ID) time.Time
}

var _ record.Validator = Validator{}

// Validate accepts a sealed lease under its own key from Skew before its issue
// until Grace after its end, and a takeover without votes only if this peer did
// not hear the old owner during the silence.
func (v Validator) Validate(key string, value []byte) error {
	l, err := OpenLease(value)
	if err != nil {
		return err
	}
	if Key(l.Subnet) != key {
		return fmt.Errorf("%w: %.80q holds a lease of %v", ErrKey, key, l.Subnet)
	}
	now := time.Now
	if v.Now != nil {
		now = v.Now
	}
	if err := l.CheckTime(now()); err != nil {
		return err
	}
	return l.checkHeard(v.Heard, now())
}

// Select returns the index of the best value: by Better, then by bytes; the first
// of identical ones, so that a value put again counts as accepted. What
// cannot be opened loses; if nothing can, that is an error. The clock
// plays no part, so every replica selects alike.
func (v Validator) Select(_ string, values [][]byte) (int, error) {
	best, at := Lease{}, -1
	for i, val := range values {
		l, err := OpenLease(val)
		if err != nil {
			continue
		}
		if at >= 0 {
			c := Better(l, best)
			if c == 0 {
				c = bytes.Compare(val, values[at])
			}
			if c <= 0 {
				continue
			}
		}
		best, at = l, i
	}
	if at < 0 {
		return 0, fmt.Errorf("lease: no valid record among %d", len(values))
	}
	return at, nil
}
