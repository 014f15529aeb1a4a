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
	Peer peer.ID
	// At is the coordinate with Wait added to its height. At.Unloaded(Wait) is the coordinate
	// without load.
	At coords.Coordinate
	// Wait is the estimated time from enqueueing a new URL at the peer to fetching it, in whole
	// microseconds.
	Wait time.Duration
	// Capacity is how much more work the peer takes, relative to what an average peer does in a
	// day: 1 without any limit, 0 if it takes none because it is full or outside its hours.
	Capacity float64
	// Version is the version of the peer's program.
	Version string
	// Seq increases with each beacon, also across restarts.
	Seq uint64
	// Time is when the beacon was made, by the maker's clock, in whole milliseconds.
	Time time.Time
	// Addrs are the multiaddrs on which the peer listens.
	Addrs []string
	// Traits are what a page takes at the peer in addition to what distance and server explain.
	// Nil if unknown.
	Traits *coords.Traits
	// Trips are round trips to other peers.
	Trips Trips
	// Interval is the approximate time between the peer's beacons, in whole milliseconds. It grows
	// with the network. 0 if unknown.
	Interval time.Duration
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

// Seal signs b for a topic. b.Peer must be the peer of key. Addresses that do not parse are left
// out.
func Seal(key crypto.PrivKey, topic string, b Beacon) ([]byte, error) {
	if !b.Peer.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("peers: seal beacon: %w: the key is not of %s", ErrBeacon, b.Peer)
	}
	envelope, err := record.Seal(&signedBeacon{topic: topic, encoded: encode(b)}, key)
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

// Open decodes raw and checks that it was signed for topic, that its values are within bounds and
// that its coordinate has dims dimensions. It does not check Time and Seq. Errors wrap ErrBeacon.
func Open(raw []byte, topic string, dims int) (Beacon, error) {
	if err := checkSize(raw); err != nil {
		return Beacon{}, err
	}
	rec := &signedBeacon{topic: topic}
	envelope, err := record.ConsumeTypedEnvelope(raw, rec)
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	b, err := rec.decode(envelope)
	if err == nil {
		err = b.validate(dims)
	}
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	return b, nil
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
	err = claim.UnmarshalRecord(envelope.RawPayload)
	var b Beacon
	if err == nil {
		b, err = claim.decode(envelope)
	}
	if err != nil {
		return Beacon{}, fmt.Errorf("%w: %w", ErrBeacon, err)
	}
	return b, nil
}

// encoded is a Beacon without its maker, who is known by the public key of the envelope.
type encoded struct {
	At       coords.Coordinate `cbor:"1,keyasint"`
	Wait     int64             `cbor:"2,keyasint,omitempty"` // microseconds
	Capacity float64           `cbor:"3,keyasint,omitempty"`
	Version  string            `cbor:"4,keyasint,omitempty"`
	Seq      uint64            `cbor:"5,keyasint"`
	Time     int64             `cbor:"6,keyasint"`           // milliseconds since 1970
	Addrs    [][]byte          `cbor:"7,keyasint,omitempty"` // multiaddrs in their binary form
	Traits   *coords.Traits    `cbor:"8,keyasint,omitempty"`
	Trips    Trips             `cbor:"9,keyasint,omitempty"`
	Interval int64             `cbor:"10,keyasint,omitempty"` // milliseconds
}

func encode(b Beacon) encoded {
	e := encoded{
		At: b.At, Wait: b.Wait.Microseconds(), Capacity: b.Capacity, Version: b.Version, Seq: b.Seq,
		Time: b.Time.UnixMilli(), Traits: b.Traits, Trips: b.Trips,
		Interval: b.Interval.Milliseconds(),
	}
	for _, text := range b.Addrs {
		if a, err := ma.NewMultiaddr(text); err == nil {
			e.Addrs = append(e.Addrs, a.Bytes())
		}
	}
	return e
}

// decode returns the beacon in an envelope. Addresses that this program does not know are left out.
func (e encoded) decode(in *record.Envelope) (Beacon, error) {
	id, err := peer.IDFromPublicKey(in.PublicKey)
	if err != nil {
		return Beacon{}, err
	}
	if len(e.Addrs) > maxAddrs {
		return Beacon{}, fmt.Errorf("has %d addresses", len(e.Addrs))
	}
	b := Beacon{
		Peer: id, At: e.At, Wait: time.Duration(e.Wait) * time.Microsecond, Capacity: e.Capacity,
		Version: e.Version, Seq: e.Seq, Time: time.UnixMilli(e.Time), Traits: e.Traits,
		Trips: e.Trips, Interval: time.Duration(e.Interval) * time.Millisecond,
	}
	for _, raw := range e.Addrs {
		if a, err := ma.NewMultiaddrBytes(raw); err == nil {
			b.Addrs = append(b.Addrs, a.String())
		}
	}
	return b, nil
}

// signedBeacon is a beacon as the payload of a libp2p envelope. The topic is part of the
// signature's domain, so a beacon of one network is invalid in another even if a peer uses the
// same key in both.
type signedBeacon struct {
	encoded
	topic string
}

var _ record.Record = (*signedBeacon)(nil)

// Domain implements record.Record.
func (s *signedBeacon) Domain() string { return "peerd-beacon:" + s.topic }

// Codec implements record.Record.
func (s *signedBeacon) Codec() []byte { return []byte("/peerd/beacon/2") }

// MarshalRecord implements record.Record.
func (s *signedBeacon) MarshalRecord() ([]byte, error) { return wire.Marshal(s.encoded) }

// UnmarshalRecord implements record.Record. It is called after the signature was checked.
func (s *signedBeacon) UnmarshalRecord(b []byte) error { return wire.Unmarshal(b, &s.encoded) }
