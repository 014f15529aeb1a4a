package lease

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords"
	"peerd/overlay/record"
)

// The times and bounds that all peers of a network must agree on, since a replica
// refuses what is outside.
const (
	// DefaultTTL is how long a lease lasts unless configured otherwise. That its
	// owner lives is known from its witnesses, not from renewals: these only keep
	// the record in the DHT.
	DefaultTTL = 12 * time.Hour
	// MaxTTL is the longest a lease may last from its issue.
	MaxTTL = 24 * time.Hour
	// LongSilence is the time without a sign of an owner after which its subnets may be
	// taken over without votes.
	LongSilence = time.Hour
	// Skew is how far in the future a record may be issued: the difference of
	// clocks that is forgiven.
	Skew = record.Skew
	// Grace is how long an expired lease remains valid. It outlasts the restart,
	// the repair and the night's rest of an owner.
	Grace = 24 * time.Hour
	// MaxEpoch bounds the epoch, so that counting up never overflows.
	MaxEpoch = 1 << 48
)

// A Lease says that Owner owns Subnet. Times have millisecond precision and are
// UTC once the lease went through SealLease or OpenLease. Proxy, Grant and
// Takeover are shared between copies: read only.
type Lease struct {
	// Network identifies the network that the lease is of.
	Network string
	// Subnet is an IPv4 /24 or IPv6 /48, as store.SubnetOf makes it.
	Subnet netip.Prefix
	// Owner signs the lease.
	Owner peer.ID
	// Epoch counts the owners of Subnet from 1.
	Epoch uint64
	// Issued is when this lease, or this renewal of it, was signed.
	Issued time.Time
	// Expires is when the owner must have renewed it.
	Expires time.Time
	// Claimed is when the claim of epoch 1 was made, in all its renewals; zero above it.
	Claimed time.Time
	// Proxy predicts download times from the subnet's servers. Nil: not known yet.
	Proxy *coords.Proxy
	// Grant is the sealed Grant of the previous owner, if it consented. At epoch 1
	// both Grant and Takeover are nil, above it exactly one of them is.
	Grant []byte
	// Takeover is what stands for the consent of a silent owner.
	Takeover *Takeover
	// Links are the last steps before this one, the oldest first: none at epoch 1, above it
	// at least the one before. Read only.
	Links []Link
	// Receipts are those for the claim, if Links reach back to it: of each a key and a
	// signature. Read only.
	Receipts []byte
}

// A Grant is the previous owner's consent to a transfer.
type Grant struct {
	Subnet   netip.Prefix
	From, To peer.ID
	// Epoch is the one that To will own under.
	Epoch uint64
	// Ended is the digest of the step that the grant ends.
	Ended  Digest
	Issued time.Time
}

// Expired reports whether the owner should have renewed l before now. An expired
// lease still names the owner; see the package comment.
func (l Lease) Expired(now time.Time) bool { return now.After(l.Expires) }

// Better orders leases of one subnet: positive when a is better than b, negative
// when b is, zero only when both say the same. It is a total order that
// depends on nothing but the two leases: the higher epoch; at the same epoch the
// owner with the higher tie-break hash; of the same owner the later issue, then
// the later end, then the larger encoding.
func Better(a, b Lease) int {
	if c := cmp.Compare(a.Epoch, b.Epoch); c != 0 {
		return c
	}
	if a.Owner != b.Owner {
		if c := bytes.Compare(tieBreak(a), tieBreak(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.Owner, b.Owner)
	}
	if c := cmp.Compare(a.Issued.UnixMilli(), b.Issued.UnixMilli()); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Expires.UnixMilli(), b.Expires.UnixMilli()); c != 0 {
		return c
	}
	return bytes.Compare(fingerprint(a), fingerprint(b))
}

// tieBreak is SHA-256 over subnet, epoch and owner. The epoch is in it so that
// no owner wins at every step.
func tieBreak(l Lease) []byte {
	h := sha256.New()
	h.Write([]byte("peerd lease tie-break\x00"))
	addr := l.Subnet.Addr().As16()
	h.Write(addr[:])
	h.Write(binary.BigEndian.AppendUint64(nil, l.Epoch))
	h.Write([]byte(l.Owner))
	return h.Sum(nil)
}

// fingerprint is the encoded body and evidence; a lease that cannot be encoded
// has none.
func fingerprint(l Lease) []byte {
	b, evidence, links, err := bodiesOf(l)
	if err != nil {
		return nil
	}
	raw, err := record.Encode(b, leaseKind.Max)
	if err != nil {
		return nil
	}
	return slices.Concat(raw, evidence, links)
}
