package home

import (
	"fmt"
	"time"

	libp2p "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/record"
)

// Namespace is the part of the DHT's key space that homes live in.
const Namespace = "peerd-home"

// keepValue is the largest sealed record that is kept in memory; those of moves,
// which carry leases, are read again when they are needed.
const keepValue = 1 << 10

// homeType is the type of homes of any network, by host.
var homeType = typeFor("")

func typeFor(network string) *record.Type[string, Record] {
	return &record.Type[string, Record]{Rules: rules{network}}
}

// rules are the record.Rules of the homes of a network.
type rules struct{ network string }

func (rules) Namespace() string                       { return Namespace }
func (rules) KeyOf(r Record) string                   { return r.Host }
func (rules) CheckTime(r Record, now time.Time) error { return r.CheckTime(now) }
func (rules) Better(a, b Record) int                  { return Better(a, b) }
func (rules) Replaces(known, r Record) bool           { return Better(r, known) > 0 }
func (rules) Same(a, b Record) bool                   { return Better(a, b) == 0 }
func (rules) Void(Record, time.Time) bool             { return false }
func (rules) MaxKept() int                            { return keepValue }

func (x rules) Open(value []byte) (Record, error) {
	r, err := Open(value)
	if err == nil && r.Network != x.network {
		err = fmt.Errorf("%w: %.100q", record.ErrNetwork, r.Network)
	}
	return r, err
}

// Key returns the DHT key of the home of host: /peerd-home/<host>.
func Key(host string) string { return homeType.Key(host) }

// Validator judges homes for the DHT. It has no state and is safe for concurrent use.
type Validator struct {
	// Network identifies the network of the records.
	Network string
	// Clock tells when records are valid.
	Clock clock.Clock
}

var _ libp2p.Validator = Validator{}

// Validate accepts a sealed record under its own key from Skew before its issue.
func (v Validator) Validate(key string, value []byte) error {
	_, err := typeFor(v.Network).Validate(key, value, v.Clock.Now())
	return err
}

// Select is that of record.Type.
func (v Validator) Select(_ string, values [][]byte) (int, error) {
	return typeFor(v.Network).Select(values)
}

// Signer returns who has signed a valid record.
func (v Validator) Signer(value []byte) (peer.ID, error) {
	var p bundle
	if err := record.Decode(value, maxValue, &p); err != nil {
		return "", fmt.Errorf("home: %w", err)
	}
	return record.SignerOf(p.Sealed)
}
