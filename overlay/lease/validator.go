package lease

import (
	"fmt"
	"net/netip"
	"time"

	libp2p "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/record"
)

// Namespace is the part of the DHT's key space that leases live in.
const Namespace = "peerd-lease"

// leaseType is the type of the records of this package, by subnet.
var leaseType = record.Type[netip.Prefix, Lease]{
	Namespace: Namespace, KeyOf: func(l Lease) netip.Prefix { return l.Subnet }, Open: OpenLease,
	CheckTime: Lease.CheckTime, Better: Better,
	Same: func(a, b Lease) bool { return a.Owner == b.Owner && a.Epoch == b.Epoch },
	Void: func(l Lease, now time.Time) bool { return now.Sub(l.Expires) > Grace },
}

// Key returns the DHT key of the lease of subnet: /peerd-lease/<prefix>.
func Key(subnet netip.Prefix) string { return leaseType.Key(subnet) }

// typeFor returns leaseType for a network. Its Judge, if there is one, sees what is opened.
func typeFor(
	network string, j *Judge, c clock.Clock,
) *record.Type[netip.Prefix, Lease] {
	t := leaseType
	t.Open = func(sealed []byte) (Lease, error) {
		l, err := OpenLease(sealed)
		if err == nil && l.Network != network {
			err = fmt.Errorf("%w: %.100q", ErrNetwork, l.Network)
		}
		if err == nil && j != nil {
			j.See(l, c.Now())
		}
		return l, err
	}
	if j != nil {
		t.Replaces = j.Replaces
	}
	return &t
}

// Validator judges leases for the DHT. It is safe for concurrent use.
type Validator struct {
	// Network identifies the network of the leases.
	Network string
	// Clock tells when records are valid.
	Clock clock.Clock
	// Judge decides which lease stands. Nil: Better does.
	Judge *Judge
}

var _ libp2p.Validator = Validator{}

// Validate accepts a sealed lease of the network under its own key from Skew before its issue
// until Grace after its end.
func (v Validator) Validate(key string, value []byte) error {
	_, err := typeFor(v.Network, v.Judge, v.Clock).Validate(key, value, v.Clock.Now())
	return err
}

// Select returns the index of the lease that stands, by the Judge; the first of identical ones.
// Without a Judge it is that of record.Type.
func (v Validator) Select(_ string, values [][]byte) (int, error) {
	t := typeFor(v.Network, nil, v.Clock)
	if v.Judge == nil {
		return t.Select(values)
	}
	best, at := Lease{}, -1
	for i, val := range values {
		l, err := t.Open(val)
		if err != nil || at >= 0 && v.Judge.better(best, l) {
			continue
		}
		best, at = l, i
	}
	if at < 0 {
		return 0, fmt.Errorf("lease: no valid lease among %d", len(values))
	}
	return at, nil
}

// Signer returns who has signed a valid lease.
func (v Validator) Signer(value []byte) (peer.ID, error) {
	s, err := split(value)
	if err != nil {
		return "", err
	}
	return record.SignerOf(s.Envelope)
}
