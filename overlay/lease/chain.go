package lease

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/record"
)

// MaxLinks is how many of the steps before it a lease carries. A reader that missed no more
// than so many can follow.
const MaxLinks = 4

// maxLinkBytes bounds the evidence of the links together; older links are left out first.
const maxLinkBytes = 6 << 10

// A Digest identifies a step: one epoch of a unit in a network, its owner, and all steps before
// it. Renewals do not change it. SHA-256; zero means that there is no step.
type Digest [sha256.Size]byte

// A Link is a step before a lease.
type Link struct {
	Owner peer.ID
	Epoch uint64
	// Prev is the digest of the step before. Zero at epoch 1.
	Prev Digest
	// Claimed is that of the lease, at epoch 1 only.
	Claimed time.Time
	// Grant and Takeover are the evidence, as in a Lease. The oldest link that a lease
	// carries has none.
	Grant    []byte
	Takeover *Takeover
}

// link returns l as a step.
func (l Lease) link() Link {
	return Link{l.Owner, l.Epoch, l.Prev(), l.Claimed, l.Grant, l.Takeover}
}

// digest returns the digest of a step of a subnet in a network.
func (k Link) digest(network string, subnet netip.Prefix) (d Digest) {
	h := sha256.New()
	put := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
		h.Write(b)
	}
	put([]byte("peerd lease step"))
	put([]byte(network))
	addr := subnet.Addr().As16()
	put(append(addr[:], byte(subnet.Bits())))
	put(binary.BigEndian.AppendUint64(nil, k.Epoch))
	put([]byte(k.Owner))
	put(k.Prev[:])
	put(binary.BigEndian.AppendUint64(nil, uint64(millisOf(k.Claimed))))
	h.Sum(d[:0])
	return d
}

// millisOf is the inverse of timeOf: 0 for the zero time.
func millisOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return record.Millis(ms)
}

// Digest returns the digest of the step that l is a record of.
func (l Lease) Digest() Digest { return l.link().digest(l.Network, l.Subnet) }

// Prev returns the digest of the step before l; zero at epoch 1.
func (l Lease) Prev() Digest {
	if len(l.Links) == 0 {
		return Digest{}
	}
	return l.Links[len(l.Links)-1].digest(l.Network, l.Subnet)
}

// before returns the step before l, which has one.
func (l Lease) before() Link { return l.Links[len(l.Links)-1] }

// Next returns the lease of the step after l, without evidence and times.
func (l Lease) Next(owner peer.ID) Lease {
	n := Lease{Network: l.Network, Subnet: l.Subnet, Owner: owner, Epoch: l.Epoch + 1,
		Proxy: l.Proxy}
	n.Links = append(append(n.Links, l.Links...), l.link())
	n.Links = trimmed(n.Links)
	if n.Links[0].Epoch == 1 {
		n.Receipts = l.Receipts
	}
	return n
}

// trimmed leaves out the oldest links that are too many or too large, but never the last one.
func trimmed(links []Link) []Link {
	from, size := len(links)-1, 0
	for from > 0 && len(links)-from < MaxLinks {
		n := links[from].size()
		if size += n; n == 0 || size > maxLinkBytes {
			break
		}
		from--
	}
	links = links[from:]
	links[0].Grant, links[0].Takeover = nil, nil
	return links
}

// size is about the number of bytes of the evidence of k.
func (k Link) size() int {
	n := len(k.Grant)
	if t := k.Takeover; t != nil {
		n += len(t.WitnessSet) + len(t.Last)
		for _, v := range t.Votes {
			n += len(v)
		}
	}
	return n
}

// GrantTo returns the sealed Grant that ends l in favor of a successor. The key is that of l's
// owner.
func (l Lease) GrantTo(to peer.ID, at time.Time, key crypto.PrivKey) ([]byte, error) {
	return SealGrant(Grant{Subnet: l.Subnet, From: l.Owner, To: to, Epoch: l.Epoch + 1,
		Ended: l.Digest(), Issued: at}, key)
}

// Follows reports whether l proves that it descends from the step of old.
func (l Lease) Follows(old Lease) bool {
	return l.Network == old.Network && l.Subnet == old.Subnet && l.after(old.Digest()) >= 0
}

// after returns the position in l.Links of the step with that digest; -1 if there is none.
func (l Lease) after(d Digest) int {
	for i, k := range l.Links {
		if k.digest(l.Network, l.Subnet) == d {
			return i
		}
	}
	return -1
}

// steps returns the steps that l shows, its own last.
func (l Lease) steps() []Link { return append(append([]Link(nil), l.Links...), l.link()) }

// fork returns the first steps in which a and b differ, which are of the same epoch and have
// the same step before them, or none. It returns false if their records do not reach back to
// it, or one descends from the other.
func fork(a, b Lease) (x, y Link, ok bool) {
	for _, x := range a.steps() {
		for _, y := range b.steps() {
			if x.Epoch == y.Epoch && x.Prev == y.Prev &&
				x.digest(a.Network, a.Subnet) != y.digest(b.Network, b.Subnet) {
				return x, y, true
			}
		}
	}
	return x, y, false
}

// historyBody is the CBOR form of links: the first one, and of the others their owners and
// evidence.
type historyBody struct {
	Epoch    uint64    `cbor:"1,keyasint"`
	Prev     []byte    `cbor:"2,keyasint,omitempty"`
	Claimed  int64     `cbor:"3,keyasint,omitempty"`
	Owners   []peer.ID `cbor:"4,keyasint"`
	Evidence [][]byte  `cbor:"5,keyasint,omitempty"`
}

// encodeLinks returns the encoded links; nil if there are none.
func encodeLinks(links []Link) ([]byte, error) {
	if len(links) == 0 {
		return nil, nil
	}
	h := historyBody{Epoch: links[0].Epoch, Claimed: millisOf(links[0].Claimed)}
	if links[0].Prev != (Digest{}) {
		h.Prev = links[0].Prev[:]
	}
	for i, k := range links {
		h.Owners = append(h.Owners, k.Owner)
		if i == 0 {
			continue
		}
		raw, err := encodeEvidence(k.Grant, k.Takeover)
		if err != nil {
			return nil, err
		}
		h.Evidence = append(h.Evidence, raw)
	}
	return record.Encode(h, MaxSealed)
}

// decodeLinks is the inverse of encodeLinks for a subnet in a network. It checks no evidence.
func decodeLinks(raw []byte, network string, subnet netip.Prefix) ([]Link, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	var h historyBody
	if err := record.Decode(raw, MaxSealed, &h); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrChain, err)
	}
	if n := len(h.Owners); n == 0 || n > MaxLinks || len(h.Evidence) != n-1 ||
		h.Epoch == 0 || h.Epoch > MaxEpoch-MaxLinks || len(h.Prev) != 0 &&
		len(h.Prev) != len(Digest{}) {
		return nil, fmt.Errorf("%w: %d links from epoch %d", ErrChain, n, h.Epoch)
	}
	links := []Link{{Owner: h.Owners[0], Epoch: h.Epoch, Claimed: timeOf(h.Claimed)}}
	copy(links[0].Prev[:], h.Prev)
	for i, id := range h.Owners[1:] {
		k := Link{Owner: id, Epoch: h.Epoch + uint64(i) + 1,
			Prev: links[i].digest(network, subnet)}
		var e evidenceBody
		if err := record.Decode(h.Evidence[i], MaxSealed, &e); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrChain, err)
		}
		k.Grant, k.Takeover = e.evidence()
		links = append(links, k)
	}
	if again, err := encodeLinks(links); err != nil || !bytes.Equal(again, raw) {
		return nil, fmt.Errorf("%w: not in the one form", ErrChain)
	}
	return links, nil
}

// checkLinks reports whether the steps before l follow from each other.
func (l Lease) checkLinks() error {
	if l.Epoch == 1 {
		if len(l.Links) > 0 {
			return fmt.Errorf("%w: nothing comes before epoch 1", ErrChain)
		}
		return nil
	}
	if n := len(l.Links); n == 0 || n > MaxLinks || l.before().Epoch+1 != l.Epoch {
		return fmt.Errorf("%w: %d links before epoch %d", ErrChain, n, l.Epoch)
	}
	for i, k := range l.Links {
		if err := k.check(); err != nil {
			return err
		}
		if i == 0 {
			continue
		}
		step := Lease{Network: l.Network, Subnet: l.Subnet, Owner: k.Owner, Epoch: k.Epoch,
			Links: l.Links[:i], Grant: k.Grant, Takeover: k.Takeover}
		if k.Epoch != l.Links[i-1].Epoch+1 || k.Prev != step.Prev() {
			return fmt.Errorf("%w: epoch %d does not follow", ErrChain, k.Epoch)
		}
		if err := step.checkEvidence(); err != nil {
			return fmt.Errorf("%w: epoch %d: %w", ErrChain, k.Epoch, err)
		}
	}
	return nil
}

// check reports whether k could be a step.
func (k Link) check() error {
	switch {
	case k.Owner.Validate() != nil || k.Epoch == 0 || k.Epoch > MaxEpoch:
		return fmt.Errorf("%w: epoch %d of %v", ErrChain, k.Epoch, k.Owner)
	case (k.Epoch == 1) != (k.Prev == Digest{}):
		return fmt.Errorf("%w: epoch %d, and a step before it", ErrChain, k.Epoch)
	case k.Epoch > 1 && !k.Claimed.IsZero():
		return fmt.Errorf("%w: a claim of epoch %d", ErrChain, k.Epoch)
	case !k.Claimed.IsZero() && record.CheckMillis(k.Claimed) != nil:
		return fmt.Errorf("%w: claimed at %v", ErrChain, k.Claimed)
	}
	return nil
}

// Shorten returns a sealed lease without receipts, and without the steps before it, except the
// last one. It is for messages with little space; who knows the step before can follow it. It
// fails if sealed cannot be parsed.
func Shorten(sealed []byte) ([]byte, error) {
	l, err := OpenLease(sealed)
	if err != nil || len(l.Links) <= 1 && len(l.Receipts) == 0 {
		return sealed, err
	}
	s, err := split(sealed)
	if err != nil {
		return nil, err
	}
	if s.Envelope, _, err = record.Attached(s.Envelope); err != nil {
		return nil, err
	}
	if len(l.Links) <= 1 {
		return record.Encode(s, MaxSealed)
	}
	last := l.before()
	last.Grant, last.Takeover = nil, nil
	if s.Links, err = encodeLinks([]Link{last}); err != nil {
		return nil, err
	}
	return record.Encode(s, MaxSealed)
}
