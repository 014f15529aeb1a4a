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
	"peerd/overlay/prefix"
	"peerd/overlay/wire"
)

// ErrBeacon means that bytes are not a beacon of this network: malformed, out of bounds, or not
// signed by the peer they are about.
var ErrBeacon = errors.New("peers: bad beacon")

// Bounds of a beacon.
const (
	maxSealed   = 4 << 10             // bytes, signed
	maxAddrs    = 4                   // addresses: each of them may be dialed
	maxAddr     = 256                 // bytes per address
	maxVersion  = 64                  // bytes
	maxWait     = 30 * 24 * time.Hour // keeps sums from overflowing
	maxCapacity = 1e6
	maxInterval = 10 * time.Minute
)

// ttlIntervals is for how many of its beacon intervals a silent peer stays present.
const ttlIntervals = 6

// A Beacon is what a peer announces about itself. Beacons returned by a Directory are shared
// and must not be modified.
type Beacon struct {
	// Peer is the maker.
	Peer peer.ID `cbor:"1,keyasint"`
	// At is the coordinate with Wait added to its height. At.Unloaded(Wait) is the coordinate
	// without load.
	At coords.Coordinate `cbor:"2,keyasint"`
	// Wait is the estimated time from enqueueing a new URL at the peer to fetching it.
	Wait time.Duration `cbor:"3,keyasint"`
	// Capacity is how much more work the peer takes, relative to what an average peer does in a
	// day: 1 without any limit, 0 if it takes none because it is full or outside its hours.
	Capacity float64 `cbor:"4,keyasint"`
	// Version is the version of the peer's program.
	Version string `cbor:"5,keyasint"`
	// Seq increases with each beacon, also across restarts.
	Seq uint64 `cbor:"6,keyasint"`
	// Time is when the beacon was made, by the maker's clock.
	Time time.Time `cbor:"7,keyasint"`
	// Addrs are the multiaddrs on which the peer listens.
	Addrs []string `cbor:"8,keyasint"`
	// Traits are what a page takes at the peer in addition to what distance and server explain.
	// Nil if unknown. Key 9 held other numbers once.
	Traits *coords.Traits `cbor:"11,keyasint,omitempty"`
	// Trips are round trips to other peers.
	Trips Trips `cbor:"12,keyasint,omitempty"`
	// Interval is the approximate time between the peer's beacons. It grows with the network. 0
	// if unknown.
	Interval time.Duration `cbor:"10,keyasint,omitempty"`
}

// Info returns the peer's ID and addresses. Addresses that do not parse, or do not begin with an
// IP address, are left out: a name could stand for any address.
func (b Beacon) Info() peer.AddrInfo {
	info := peer.AddrInfo{ID: b.Peer}
	for _, text := range b.Addrs {
		a, err := ma.NewMultiaddr(text)
		if err != nil {
			continue
		}
		if _, ok := prefix.Of(a); ok {
			info.Addrs = append(info.Addrs, a)
		}
	}
	return info
}

// validate checks everything that needs no clock. dims is the dimension of the network's
// coordinate space.
func (b Beacon) validate(dims int) error {
	var errs []error
	if err := b.Peer.Validate(); err != nil {
		errs = append(errs, err)
	}
	if err := b.At.Validate(dims); err != nil {
		errs = append(errs, err)
	}
	if b.Traits != nil {
		if err := b.Traits.Validate(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := b.Trips.validate(); err != nil {
		errs = append(errs, err)
	}
	bad := func(wrong bool, format string, args ...any) {
		if wrong {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(b.Wait < 0 || b.Wait > maxWait, "wait is %v", b.Wait)
	bad(math.IsNaN(b.Capacity) || b.Capacity < 0 || b.Capacity > maxCapacity, "capacity is %v",
		b.Capacity)
	bad(b.Interval < 0 || b.Interval > maxInterval, "every is %v", b.Interval)
	bad(len(b.Version) > maxVersion || !utf8.ValidString(b.Version), "version has %d bytes",
		len(b.Version))
	bad(len(b.Addrs) > maxAddrs, "has %d addresses", len(b.Addrs))
	for _, a := range b.Addrs[:min(len(b.Addrs), maxAddrs)] {
		bad(len(a) > maxAddr, "address has %d bytes", len(a))
	}
	return errors.Join(errs...)
}

// Seal signs b for a topic. b.Peer must be the peer of key.
func Seal(key crypto.PrivKey, topic string, b Beacon) ([]byte, error) {
	envelope, err := record.Seal(&signedBeacon{topic: topic, Beacon: b}, key)
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

// Open decodes raw and checks that it was signed for topic by the peer it is about, that its
// values are within bounds and that its coordinate has dims dimensions. It does not check Time
// and Seq. Errors wrap ErrBeacon.
func Open(raw []byte, topic string, dims int) (Beacon, error) {
	if err := checkSize(raw); err != nil {
		return Beacon{}, err
	}
	rec := &signedBeacon{topic: topic}
	envelope, err := record.ConsumeTypedEnvelope(raw, rec)
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if err := rec.validate(dims); err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	if !rec.Peer.MatchesPublicKey(envelope.PublicKey) {
		return Beacon{}, fmt.Errorf("%w: about %s, which did not sign it", ErrBeacon, rec.Peer)
	}
	return rec.Beacon, nil
}

// peek decodes raw without checking its signature or values.
func peek(raw []byte) (Beacon, error) {
	if err := checkSize(raw); err != nil {
		return Beacon{}, err
	}
	envelope, err := record.UnmarshalEnvelope(raw)
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	var claim signedBeacon
	if err := claim.UnmarshalRecord(envelope.RawPayload); err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	return claim.Beacon, nil
}

// signedBeacon is a Beacon as the payload of a libp2p envelope. The topic is part of the
// signature's domain, so a beacon of one network is invalid in another even if a peer uses the
// same key in both.
type signedBeacon struct {
	Beacon
	topic string
}

var _ record.Record = (*signedBeacon)(nil)

// Domain implements record.Record.
func (s *signedBeacon) Domain() string { return "peerd-beacon:" + s.topic }

// Codec implements record.Record.
func (s *signedBeacon) Codec() []byte { return []byte("/peerd/beacon/1") }

// MarshalRecord implements record.Record.
func (s *signedBeacon) MarshalRecord() ([]byte, error) { return wire.Marshal(s.Beacon) }

// UnmarshalRecord implements record.Record. It is called after the signature was checked.
func (s *signedBeacon) UnmarshalRecord(b []byte) error { return wire.Unmarshal(b, &s.Beacon) }
