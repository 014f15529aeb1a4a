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

// leaseType is the type of leases of any network, by subnet.
var leaseType = typeFor("", nil, clock.Clock{})

// Key returns the DHT key of the lease of subnet: /peerd-lease/<prefix>.
func Key(subnet netip.Prefix) string { return leaseType.Key(subnet) }

func typeFor(network string, j *Judge, c clock.Clock) *record.Type[netip.Prefix, Lease] {
	return &record.Type[netip.Prefix, Lease]{Rules: rules{network, j, c}}
}

// rules are the record.Rules of the leases of a network.
type rules struct {
	network string
	judge   *Judge // sees what is opened; nil: Better decides
	clock   clock.Clock
}

func (rules) Namespace() string                      { return Namespace }
func (rules) KeyOf(l Lease) netip.Prefix             { return l.Subnet }
func (rules) CheckTime(l Lease, now time.Time) error { return l.CheckTime(now) }
func (rules) Better(a, b Lease) int                  { return Better(a, b) }
func (rules) Void(l Lease, now time.Time) bool       { return now.Sub(l.Expires) > Grace }
func (rules) MaxKept() int                           { return 0 }

func (rules) Same(a, b Lease) bool {
	return a.Owner == b.Owner && a.Epoch == b.Epoch
}

func (r rules) Open(sealed []byte) (Lease, error) {
	l, err := OpenLease(sealed)
	if err == nil && l.Network != r.network {
		err = fmt.Errorf("%w: %.100q", ErrNetwork, l.Network)
	}
	if err == nil {
		r.judge.See(l, r.clock.Now())
	}
	return l, err
}

func (r rules) Replaces(known, l Lease) bool {
	if r.judge == nil {
		return Better(l, known) > 0
	}
	return r.judge.Replaces(known, l)
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

// Replaces reports whether a valid lease takes the place of another one that a record holder has.
// What the holder has is known, even if it has forgotten when it has first seen it.
func (v Validator) Replaces(held, value []byte) bool {
	t := typeFor(v.Network, nil, v.Clock)
	l, err := t.Open(value)
	if err != nil {
		return false
	}
	known, err := t.Open(held)
	if err == nil && known.Digest() == l.Digest() {
		return v.Judge.later(l, known) >= 0
	}
	return err != nil || v.Judge.Replaces(known, l)
}

// Signer returns who has signed a valid lease.
func (v Validator) Signer(value []byte) (peer.ID, error) {
	s, err := split(value)
	if err != nil {
		return "", err
	}
	return record.SignerOf(s.Envelope)
}
