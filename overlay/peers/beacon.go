package peers

import (
	"errors"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/record"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/coords"
	"peerd/overlay/wire"
)

// ErrBeacon says that bytes are no beacon of this network: malformed, out of
// bounds, or not signed by the peer that they speak of.
var ErrBeacon = errors.New("peers: bad beacon")

// Bounds of a beacon.
const (
	maxSealed   = 4 << 10             // bytes, sealed
	maxAddrs    = 16                  // addresses
	maxAddr     = 256                 // bytes of one
	maxVersion  = 64                  // bytes
	maxWait     = 30 * 24 * time.Hour // nobody waits longer, and sums do not overflow
	maxCapacity = 1e6
	maxEvery    = 10 * time.Minute
)

// lives is how many of its intervals a peer may be silent and still count as
// present.
const lives = 6

// A Beacon is what a peer says of itself. A Beacon got from a Directory is
// shared: do not change what it points to.
type Beacon struct {
	// Peer is who speaks.
	Peer peer.ID `cbor:"1,keyasint"`
	// At is the coordinate with Wait counted into its height; At.Unloaded(Wait)
	// is without.
	At coords.Coordinate `cbor:"2,keyasint"`
	// Wait is how long a new URL would wait there before it is fetched.
	Wait time.Duration `cbor:"3,keyasint"`
	// Capacity is how much more the peer can take on, relative to what a plain one
	// does in a day: 1 without any limit, 0 when it takes nothing, being
	// full or outside its hours.
	Capacity float64 `cbor:"4,keyasint"`
	// Version is that of its program.
	Version string `cbor:"5,keyasint"`
	// Seq grows with every beacon, over restarts too.
	Seq uint64 `cbor:"6,keyasint"`
	// Time is when it was made, by the clock there.
	Time time.Time `cbor:"7,keyasint"`
	// Addrs are the multiaddrs that the peer listens on.
	Addrs []string `cbor:"8,keyasint"`
	// Traits is what this peer has learnt of itself beyond its place: why some
	// servers are quicker or slower from there than the distance says. Nil:
	// nothing yet.
	Traits coords.Traits `cbor:"9,keyasint,omitempty"`
	// Every is about how often it makes a beacon: the larger the network, the
	// seldomer. 0 says nothing.
	Every time.Duration `cbor:"10,keyasint,omitempty"`
}

// Info is how to connect to the peer. Addresses that do not parse are left out.
func (b Beacon) Info() peer.AddrInfo {
	info := peer.AddrInfo{ID: b.Peer}
	for _, text := range b.Addrs {
		if a, err := ma.NewMultiaddr(text); err == nil {
			info.Addrs = append(info.Addrs, a)
		}
	}
	return info
}

// validate checks all that needs no clock. dims is that of the network's space.
func (b Beacon) validate(dims int) error {
	var errs []error
	if err := b.Peer.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := b.At.Validate(dims); err != nil {
		errs = append(errs, err)
	}
	if err := b.Traits.Validate(); err != nil {
		errs = append(errs, err)
	}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(b.Wait < 0 || b.Wait > maxWait, "wait is %v", b.Wait)
	bad(math.IsNaN(b.Capacity) || b.Capacity < 0 || b.Capacity > maxCapacity, "capacity is %v", b.Capacity)
	bad(b.Every < 0 || b.Every > maxEvery, "every is %v", b.Every)
	bad(len(b.Version) > maxVersion || !utf8.ValidString(b.Version), "version has %d bytes", len(b.Version))
	bad(len(b.Addrs) > maxAddrs, "%d addresses", len(b.Addrs))
	for _, a := range b.Addrs[:min(len(b.Addrs), maxAddrs)] {
		bad(len(a) > maxAddr, "an address of %d bytes", len(a))
	}
	return errors.Join(errs...)
}

// Seal signs b for a topic. b.Peer must be the peer of key.
func Seal(key crypto.PrivKey, topic string, b Beacon) ([]byte, error) {
	envelope, err := record.Seal(&sealed{topic: topic, Beacon: b}, key)
	if err != nil {
		return nil, fmt.Errorf("peers: seal beacon: %w", err)
	}
	raw, err := envelope.Marshal()
	if err != nil {
		return nil, fmt.Errorf("peers: seal beacon: %w", err)
	}
	return raw, checkSize(raw)
}

func checkSize(raw []byte) error {
	if len(raw) > maxSealed {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrBeacon, len(raw), maxSealed)
	}
	return nil
}

// Open returns the beacon in raw if it was sealed for topic by the peer that it
// speaks of and everything in it is within bounds, with a coordinate of dims
// dimensions. Time and Seq are for a Directory to judge. The error wraps
// ErrBeacon.
func Open(raw []byte, topic string, dims int) (Beacon, error) {
	if err := checkSize(raw); err != nil {
		return Beacon{}, err
	}
	rec := &sealed{topic: topic}
	envelope, err := record.ConsumeTypedEnvelope(raw, rec)
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if err := rec.validate(dims); err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if !rec.Peer.MatchesPublicKey(envelope.PublicKey) {
		return Beacon{}, fmt.Errorf("%w: it speaks of %s, who did not sign it", ErrBeacon, rec.Peer)
	}
	return rec.Beacon, nil
}

// peek decodes what raw claims, without any check of whether it is true.
func peek(raw []byte) (Beacon, error) {
	if err := checkSize(raw); err != nil {
		return Beacon{}, err
	}
	envelope, err := record.UnmarshalEnvelope(raw)
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	var claim sealed
	if err := claim.UnmarshalRecord(envelope.RawPayload); err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	return claim.Beacon, nil
}

// sealed is a Beacon as the content of a libp2p envelope. The topic is in the
// domain of the signature, so that a beacon of one network means nothing in
// another, even when a peer uses its key in both.
type sealed struct {
	Beacon
	topic string
}

var _ record.Record = (*sealed)(nil)

// Domain separates these signatures from all others.
func (s *sealed) Domain() string { return "peerd-beacon:" + s.topic }

// Codec names the content's type.
func (s *sealed) Codec() []byte { return []byte("/peerd/beacon/1") }

// MarshalRecord encodes the content.
func (s *sealed) MarshalRecord() ([]byte, error) { return wire.Marshal(s.Beacon) }

// UnmarshalRecord decodes the content; it is called after the signature was
// checked.
func (s *sealed) UnmarshalRecord(b []byte) error { return wire.Unmarshal(b, &s.Beacon) }
