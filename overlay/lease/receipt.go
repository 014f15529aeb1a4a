package lease

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/peer"
)

// A receipt is a signature of a record holder: it had no lease of the subnet when it stored a
// claim, and signs this for no other claim within some minutes. Receipts make one of two claims
// that were made at once stand, as both cannot have those of most holders; and they keep a
// stranger who has seen a claim from making a better one.

const (
	// receiptSize is the size of one: an Ed25519 key and a signature by it. Holders with other
	// keys give none.
	receiptSize = ed25519.PublicKeySize + ed25519.SignatureSize
	// maxReceipts is how many a lease carries at most, one of each record holder.
	maxReceipts = 12
	// minReceipts is how many count: more than half of the holders.
	minReceipts = 7
	// receiptsFor is how long after the claim renewals carry its receipts. Later a rival is
	// younger than the claim for all but those who were away.
	receiptsFor = time.Hour
	// receiptTimeout bounds the time in which receipts are collected: two round trips around the
	// world, and a connection.
	receiptTimeout = 2 * time.Second
)

// Holders asks record holders for receipts. overlay.Values implements it.
type Holders interface {
	// Receipts sends a record to some peers and returns the signatures of those that have signed
	// its Statement. They are not checked. It returns at the end of ctx at the latest.
	Receipts(ctx context.Context, key string, val []byte, from []peer.ID) map[peer.ID][]byte
}

// statement is what the receipts for a claim sign.
func statement(d Digest) []byte { return append([]byte("peerd lease receipt\x00"), d[:]...) }

// Statement returns what a receipt for a valid record signs; nil if it is no claim.
func (v Validator) Statement(value []byte) []byte {
	l, err := OpenLease(value)
	if err != nil || l.Epoch != 1 {
		return nil
	}
	return statement(l.Digest())
}

// Signs reports whether a peer may sign for a valid record: it is one of the old members nearest to
// its key itself, as this peer knows them. A claimant that knows other members than all others do
// would otherwise get receipts of another set, and its rival those of the right one.
func (v Validator) Signs(value []byte, self peer.ID) bool {
	l, err := OpenLease(value)
	return err == nil && v.Judge.near(l, self)
}

// near reports whether a peer is one of the holders for the claim of l, if any are known.
func (j *Judge) near(l Lease, p peer.ID) bool {
	all := j.holders(l)
	return len(all) == 0 || slices.Contains(all, p)
}

// AppendReceipt appends a receipt for the claim of l by an Ed25519 key to others.
func AppendReceipt(receipts []byte, l Lease, key crypto.PrivKey) ([]byte, error) {
	raw, err := key.GetPublic().Raw()
	if err != nil {
		return nil, err
	}
	k, _ := l.claim()
	sig, err := key.Sign(statement(k.digest(l.Network, l.Subnet)))
	return append(append(receipts, raw...), sig...), err
}

// claim returns the step of epoch 1 of l, if its record shows it.
func (l Lease) claim() (k Link, ok bool) {
	k = l.steps()[0]
	return k, k.Epoch == 1
}

// checkReceipts reports whether the receipts of l have the right form.
func (l Lease) checkReceipts() error {
	_, claim := l.claim()
	n := len(l.Receipts)
	if n > 0 && (!claim || n%receiptSize != 0 || n > maxReceipts*receiptSize) {
		return fmt.Errorf("%w: %d bytes of receipts", ErrChain, n)
	}
	return nil
}

// signers returns who has signed valid receipts for the claim of l; nil if too few have.
func (l Lease) signers() (all []peer.ID) {
	k, ok := l.claim()
	if !ok || len(l.Receipts) < minReceipts*receiptSize {
		return nil
	}
	text := statement(k.digest(l.Network, l.Subnet))
	for r := range slices.Chunk(l.Receipts, receiptSize) {
		raw, sig := r[:ed25519.PublicKeySize], r[ed25519.PublicKeySize:]
		id, err := idOf(raw)
		if err == nil && id != k.Owner && !slices.Contains(all, id) &&
			ed25519.Verify(raw, text, sig) {
			all = append(all, id)
		}
	}
	if len(all) < minReceipts {
		return nil
	}
	return all
}

func idOf(raw []byte) (peer.ID, error) {
	key, err := crypto.UnmarshalEd25519PublicKey(raw)
	if err != nil {
		return "", err
	}
	return peer.IDFromPublicKey(key)
}

// keyOf returns the Ed25519 key that a peer ID has in it, or nil.
func keyOf(id peer.ID) []byte {
	key, err := id.ExtractPublicKey()
	if err != nil || key.Type() != crypto.Ed25519 {
		return nil
	}
	raw, err := key.Raw()
	if err != nil {
		return nil
	}
	return raw
}

// receipted returns l with receipts of the members nearest to its key, if l is a claim that has
// none and three quarters of them give one. It writes l to them. That so many are needed, and a
// reader needs fewer, leaves space for readers that know other members.
func (r *Registry) receipted(ctx context.Context, l Lease) (Lease, error) {
	from := r.cfg.Judge.holders(l)
	if r.cfg.Holders == nil || l.Epoch != 1 || len(l.Receipts) > 0 || len(from) < minReceipts {
		return l, nil
	}
	first := r.stamp(l)
	sealed, err := SealLease(first, r.cfg.Key)
	if err != nil {
		return l, err
	}
	r.cfg.Judge.See(first, r.Now())
	ctx, cancel := context.WithTimeout(ctx, receiptTimeout)
	defer cancel()
	got := r.cfg.Holders.Receipts(ctx, Key(l.Subnet), sealed, from)
	text := statement(first.Digest())
	var all [][]byte
	for _, p := range from {
		raw, sig := keyOf(p), got[p]
		if raw != nil && len(sig) == ed25519.SignatureSize && ed25519.Verify(raw, text, sig) {
			all = append(all, raw, sig)
		}
	}
	l.Issued = first.Issued // what is written next is newer
	if enough(len(all)/2, len(from)) {
		l.Receipts = bytes.Join(all, nil)
	}
	return l, nil
}

// enough reports whether a claim is given its receipts.
func enough(got, asked int) bool { return got >= minReceipts && 4*got >= 3*asked }

// rank orders rivals that differ in their claims: 0 if the claim of l has no receipts; else 1, or
// 2 in a contest of young claims if old members near its key, as this peer knows them, have signed
// most. Only the latter tells a claim from one of a stranger, who can make keys for receipts. The
// former is the same for all peers, so that they agree on honest claims.
func (j *Judge) rank(l Lease, young bool) int {
	by := l.signers()
	switch {
	case by == nil:
		return 0
	case !young:
		return 1
	}
	old := 0
	for _, p := range j.holders(l) {
		if slices.Contains(by, p) {
			old++
		}
	}
	if old < minReceipts {
		return 1
	}
	return 2
}

// holders returns the old members that may sign receipts for the claim of l.
func (j *Judge) holders(l Lease) []peer.ID {
	if j == nil || j.contacts == nil {
		return nil
	}
	k, _ := l.claim()
	return slices.DeleteFunc(j.contacts.Nearest(l.Subnet),
		func(p peer.ID) bool { return p == k.Owner })
}
