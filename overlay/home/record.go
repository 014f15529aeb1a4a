package home

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

// Why a record is refused; besides these there are the errors of package record.
var (
	// ErrHost: not a canonical host name.
	ErrHost = errors.New("home: not a canonical host name")
	// ErrSubnet: not a canonical IPv4 /24 or IPv6 /48, or not the one of a host
	// that is an IP literal.
	ErrSubnet = errors.New("home: impossible subnet")
	// ErrSigner: signed by another than the record names.
	ErrSigner = record.ErrSigner
	// ErrTime: issued before 1970 or more than Skew ahead of now.
	ErrTime = record.ErrTime
	// ErrEpoch: zero or above MaxEpoch.
	ErrEpoch = errors.New("home: impossible epoch")
	// ErrProof: a move without the record before it and a lease that allows it,
	// or a first record with them.
	ErrProof = errors.New("home: the proof does not fit")
)

// Silence is how long after the end of the last lease of a home's subnet the owner
// of another subnet may move the host there. All peers of a network must agree on
// it.
const Silence = time.Hour

// MaxEpoch bounds the epoch, so that counting up never overflows.
const MaxEpoch = 1 << 32

const maxNetwork = 96 // bytes, as in package overlay

// An Ed25519 statement takes about 350 bytes plus the host's name; the limit leaves
// space for RSA identities.
var statements = record.Form[Record, recordBody]{
	Kind: record.Kind{Domain: "peerd-home", Codec: "/peerd/home/3", Max: 2 << 10},
}

// A Record says that Host belongs to Subnet. Issued has millisecond precision and
// is UTC once the record went through Open.
type Record struct {
	// Network identifies the network that the record is of.
	Network string
	// Host is a host name as store.URL.Host returns it.
	Host string
	// Subnet is an IPv4 /24 or IPv6 /48, as store.SubnetOf makes it.
	Subnet netip.Prefix
	// By settled it, or moved it, and signs.
	By     peer.ID
	Issued time.Time
	// Epoch counts the homes of Host from 1.
	Epoch uint64
	// From is the home before; zero at epoch 1.
	From netip.Prefix
	// Rescue says that it was not the owner of From who moved the host, because
	// that one had been silent for Silence.
	Rescue bool
	// Proof is what the signature says of the proof that comes with it; zero at
	// epoch 1.
	Proof Digest
}

// Digest is a SHA-256.
type Digest [sha256.Size]byte

// recordBody is the CBOR form of a Record: a map from small integers.
type recordBody struct {
	Host   string       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	By     peer.ID      `cbor:"3,keyasint"`
	Issued int64        `cbor:"4,keyasint"` // Unix milliseconds
	Epoch  uint64       `cbor:"5,keyasint"`
	From   netip.Prefix `cbor:"6,keyasint,omitempty"`
	Rescue bool         `cbor:"7,keyasint,omitempty"`
	Proof  []byte       `cbor:"8,keyasint,omitempty"`

	Network string `cbor:"9,keyasint,omitempty"`
}

// Body implements record.Signed.
func (r Record) Body() (recordBody, peer.ID) {
	b := recordBody{
		Host: r.Host, Subnet: r.Subnet, By: r.By, Issued: r.Issued.UnixMilli(), Epoch: r.Epoch,
		From: r.From, Rescue: r.Rescue, Network: r.Network,
	}
	if r.Proof != (Digest{}) {
		b.Proof = r.Proof[:]
	}
	return b, r.By
}

// Record implements record.Body.
func (b recordBody) Record(peer.ID) (Record, error) {
	r := Record{
		Host: b.Host, Subnet: b.Subnet, By: b.By, Issued: record.Millis(b.Issued), Epoch: b.Epoch,
		From: b.From, Rescue: b.Rescue, Network: b.Network,
	}
	if n := copy(r.Proof[:], b.Proof); len(b.Proof) != 0 &&
		(n != len(b.Proof) || n != len(r.Proof)) {
		return Record{}, fmt.Errorf("%w: a digest of %d bytes", ErrProof, len(b.Proof))
	}
	return r, nil
}

// CheckTime tells whether r is acceptable at now: nil or ErrTime.
func (r Record) CheckTime(now time.Time) error {
	if ahead := r.Issued.Sub(now); ahead > record.Skew {
		return fmt.Errorf("%w: %v ahead", ErrTime, ahead)
	}
	return nil
}

// Check tells whether r could be a record at any time.
func (r Record) Check() error {
	if err := checkHost(r.Host); err != nil {
		return err
	}
	if err := checkSubnet(r.Host, r.Subnet); err != nil {
		return err
	}
	if len(r.Network) > maxNetwork {
		return fmt.Errorf("%w: %d bytes", record.ErrNetwork, len(r.Network))
	}
	if err := r.By.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	if err := record.CheckMillis(r.Issued); err != nil {
		return err
	}
	return r.checkEpoch()
}

// checkEpoch tells whether what a record says of the one before it could be.
func (r Record) checkEpoch() error {
	switch {
	case r.Epoch == 0 || r.Epoch > MaxEpoch:
		return fmt.Errorf("%w: %d", ErrEpoch, r.Epoch)
	case r.Epoch == 1 && (r.From != netip.Prefix{} || r.Rescue || r.Proof != Digest{}):
		return fmt.Errorf("%w: nothing comes before epoch 1", ErrProof)
	case r.Epoch == 1:
		return nil
	case r.Proof == Digest{}:
		return fmt.Errorf("%w: none", ErrProof)
	case r.From == r.Subnet:
		return fmt.Errorf("%w: moved to where it was", ErrSubnet)
	}
	return checkSubnet(r.Host, r.From)
}

// Better orders records of one host: positive when a is better than b, negative
// when b is, zero only when both say the same. It is a total order that depends on
// nothing but the two records: the higher epoch; at the same epoch the move by the
// owner rather than the rescue; the subnet with the higher hash; of equal subnets
// the signer with the higher hash, then the earlier issue, then what is left.
func Better(a, b Record) int {
	if c := cmp.Compare(a.Epoch, b.Epoch); c != 0 {
		return c
	}
	if a.Rescue != b.Rescue {
		if b.Rescue {
			return 1
		}
		return -1
	}
	if a.Subnet != b.Subnet {
		x, y := a.Subnet.String(), b.Subnet.String()
		return cmp.Or(bytes.Compare(tieBreak(a.Host, x), tieBreak(b.Host, y)), cmp.Compare(x, y))
	}
	if a.By != b.By {
		x, y := string(a.By), string(b.By)
		return cmp.Or(bytes.Compare(tieBreak(a.Host, x), tieBreak(b.Host, y)), cmp.Compare(x, y))
	}
	return cmp.Or(
		cmp.Compare(b.Issued.UnixMilli(), a.Issued.UnixMilli()), cmp.Compare(a.Host, b.Host),
		cmp.Compare(a.From.String(), b.From.String()),
		cmp.Compare(a.Network, b.Network), bytes.Compare(a.Proof[:], b.Proof[:]),
	)
}

// tieBreak is SHA-256 over the host and what is compared. The host is in it so that no
// subnet wins for every host.
func tieBreak(host, what string) []byte {
	sum := sha256.Sum256([]byte("peerd home tie-break\x00" + host + "\x00" + what))
	return sum[:]
}
