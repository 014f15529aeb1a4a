package home

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease/register"
)

// Why a record is refused; besides these there are register.ErrTooLarge,
// ErrEnvelope and ErrBody.
var (
	// ErrHost: not a canonical host name.
	ErrHost = errors.New("home: not a canonical host name")
	// ErrSubnet: not a canonical IPv4 /24 or IPv6 /48, or not the one of a host
	// that is an IP literal.
	ErrSubnet = errors.New("home: impossible subnet")
	// ErrSigner: signed by another than the record names.
	ErrSigner = errors.New("home: signed by the wrong peer")
	// ErrTime: issued before 1970 or more than Skew ahead of now.
	ErrTime = errors.New("home: impossible time")
	// ErrKey: stored under a key that is not its own.
	ErrKey = errors.New("home: key does not fit")
)

// Skew is how far in the future a record may be issued: the difference of clocks
// that is forgiven. All peers of a network must agree on it.
const Skew = 5 * time.Minute

const maxMillis = 1 << 47 // the year 6429: sums of such times do not overflow

// An Ed25519 record takes about 250 bytes plus the host's name; the limit leaves
// room for RSA identities.
var kind = register.Kind{Domain: "peerd-home", Codec: "/peerd/home/1", Max: 2 << 10}

// A Record says that Host belongs to Subnet. Issued has millisecond precision and
// is UTC once the record went through Open.
type Record struct {
	// Host is a host name as store.URL.Host returns it.
	Host string
	// Subnet is an IPv4 /24 or IPv6 /48, as store.SubnetOf makes it.
	Subnet netip.Prefix
	// By settled it and signs.
	By     peer.ID
	Issued time.Time
}

// recordBody is the CBOR form of a Record: a map from small integers.
type recordBody struct {
	Host   string       `cbor:"1,keyasint"`
	Subnet netip.Prefix `cbor:"2,keyasint"`
	By     peer.ID      `cbor:"3,keyasint"`
	Issued int64        `cbor:"4,keyasint"` // Unix milliseconds
}

// Seal checks r and signs it with the key of r.By.
func Seal(r Record, key crypto.PrivKey) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if !r.By.MatchesPrivateKey(key) {
		return nil, fmt.Errorf("%w: not the key of %v", ErrSigner, r.By)
	}
	return kind.Seal(recordBody{r.Host, r.Subnet, r.By, r.Issued.UnixMilli()}, key)
}

// Open returns the record in sealed if it is signed by its By and well formed. It
// looks at no clock: see Record.CheckTime.
func Open(sealed []byte) (Record, error) {
	var b recordBody
	signer, err := kind.Open(sealed, &b)
	if err != nil {
		return Record{}, fmt.Errorf("home: %w", err)
	}
	if signer != b.By {
		return Record{}, fmt.Errorf("%w: %v instead of %v", ErrSigner, signer, b.By)
	}
	r := Record{b.Host, b.Subnet, b.By, millis(b.Issued)}
	if err := r.check(); err != nil {
		return Record{}, err
	}
	return r, nil
}

// CheckTime tells whether r is acceptable at now: nil or ErrTime.
func (r Record) CheckTime(now time.Time) error {
	if ahead := r.Issued.Sub(now); ahead > Skew {
		return fmt.Errorf("%w: %v ahead", ErrTime, ahead)
	}
	return nil
}

// check tells whether r could be a record at any time.
func (r Record) check() error {
	if err := checkHost(r.Host); err != nil {
		return err
	}
	if err := checkSubnet(r.Host, r.Subnet); err != nil {
		return err
	}
	if err := r.By.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrSigner, err)
	}
	if ms := r.Issued.UnixMilli(); ms <= 0 || ms > maxMillis {
		return fmt.Errorf("%w: issued at %d ms", ErrTime, ms)
	}
	return nil
}

// millis returns the time ms milliseconds after 1970. What is out of bounds
// becomes a time that check refuses, rather than one that overflowed.
func millis(ms int64) time.Time {
	return time.UnixMilli(max(0, min(ms, maxMillis+1))).UTC()
}

// Better orders records of one host: positive when a is better than b, negative
// when b is, zero only when both say the same. It is a total order that depends on
// nothing but the two records: the subnet with the higher hash; of equal subnets
// the signer with the higher hash, then the earlier issue.
func Better(a, b Record) int {
	if a.Subnet != b.Subnet {
		x, y := a.Subnet.String(), b.Subnet.String()
		return cmp.Or(bytes.Compare(tieBreak(a.Host, x), tieBreak(b.Host, y)), cmp.Compare(x, y))
	}
	if a.By != b.By {
		x, y := string(a.By), string(b.By)
		return cmp.Or(bytes.Compare(tieBreak(a.Host, x), tieBreak(b.Host, y)), cmp.Compare(x, y))
	}
	return cmp.Or(cmp.Compare(b.Issued.UnixMilli(), a.Issued.UnixMilli()), cmp.Compare(a.Host, b.Host))
}

// tieBreak is SHA-256 over the host and what is compared. The host is in it so that no
// subnet wins for every host.
func tieBreak(host, what string) []byte {
	sum := sha256.Sum256([]byte("peerd home tie-break\x00" + host + "\x00" + what))
	return sum[:]
}
