package ownership

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership/internal/rule"
	"peerd/overlay/wire"
)

// maxLinks is how many links a record keeps: a reader that missed fewer steps can follow.
const maxLinks = 8

// A Member is a peer with the disk on which it keeps what it has signed. A peer that has
// lost its disk has another Store, and is not the member that a lease names.
type Member struct {
	ID    peer.ID `cbor:"1,keyasint"`
	Store uint64  `cbor:"2,keyasint"`
}

// A Kind says by which step a lease came about.
type Kind uint8

// The kinds of leases.
const (
	Claim    Kind = iota + 1 // of a unit without a lease: epoch 1
	Handover                 // the owner names a successor with a complete copy
	Renewal                  // the owner succeeds itself, for a new witness set or after a vote
	Takeover                 // a replica succeeds a silent owner
	Recreate                 // a peer succeeds a silent owner of which no replica is left
)

// A Lease says that Owner owns Unit. It is immutable and made by [NewLease].
type Lease struct {
	Network string `cbor:"1,keyasint"`
	// Unit is a subnet, or a host that is owned by itself.
	Unit  string `cbor:"2,keyasint"`
	Epoch uint64 `cbor:"3,keyasint"`
	Kind  Kind   `cbor:"4,keyasint"`
	Owner Member `cbor:"5,keyasint"`
	// Prev is the ID of the lease before, zero at epoch 1.
	Prev Digest `cbor:"6,keyasint"`
	// Witnesses decide on the next lease, in ascending order of ID. If there are none the
	// owner decides alone.
	Witnesses []Member `cbor:"7,keyasint,omitempty"`
	// Replicas have a complete copy at the time of the step. The owner tells its witnesses
	// of changes.
	Replicas []peer.ID `cbor:"8,keyasint,omitempty"`

	id Digest
}

// A Digest identifies a lease: SHA-256 over its encoding.
type Digest [sha256.Size]byte

// NewLease returns l with its ID.
func NewLease(l Lease) (*Lease, error) {
	raw, err := wire.Marshal(l)
	if err != nil {
		return nil, fmt.Errorf("ownership: encode lease: %w", err)
	}
	l.id = sha256.Sum256(append([]byte("peerd ownership lease\x00"), raw...))
	return &l, nil
}

// ID returns the digest of l; of nil, the zero digest.
func (l *Lease) ID() Digest {
	if l == nil {
		return Digest{}
	}
	return l.id
}

// electors returns the peers that decide on the successor of l.
func (l *Lease) electors() []Member {
	if len(l.Witnesses) == 0 {
		return []Member{l.Owner}
	}
	return l.Witnesses
}

// Need returns how many of n electors make a certificate: a majority.
func Need(n int) int { return n/2 + 1 }

// Keep returns how many of n witnesses must hear an owner so that the others are too few
// for a certificate.
func Keep(n int) int { return n - Need(n) + 1 }

// A Ballot orders the attempts to decide on the successor of one lease. Ballot 0 belongs to
// the owner, which needs no promises for it. N is unique for each proposer.
type Ballot struct {
	N  uint32  `cbor:"1,keyasint"`
	By peer.ID `cbor:"2,keyasint"`
}

// Less reports whether b comes before c.
func (b Ballot) Less(c Ballot) bool { return b.N < c.N || b.N == c.N && b.By < c.By }

// A Signature is the consent of one elector to a lease, at one ballot. Bytes are its
// signature over network, unit, lease, ballot and the elector's store; see [Seal].
type Signature struct {
	By    Member `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint"`
}

// A Certificate shows that a majority of the electors signed a lease at one ballot. With
// Near, the electors were the peers nearest to a key instead of the witnesses.
type Certificate struct {
	Ballot     Ballot      `cbor:"1,keyasint"`
	Near       bool        `cbor:"2,keyasint,omitempty"`
	Signatures []Signature `cbor:"3,keyasint"`
}

// A Link is a lease with its certificate.
type Link struct {
	Lease *Lease      `cbor:"1,keyasint"`
	Cert  Certificate `cbor:"2,keyasint"`
}

// A Record is the newest lease of a unit and up to seven before it, oldest first. Its
// signatures have been verified: it shows what was signed, not that the signers were
// entitled to do so.
type Record []Link

// Newest returns the last lease of r, or nil.
func (r Record) Newest() *Lease {
	if len(r) == 0 {
		return nil
	}
	return r[len(r)-1].Lease
}

// with returns r with one more link.
func (r Record) with(l Link) Record {
	r = r[max(0, len(r)+1-maxLinks):]
	return append(slices.Clone(r), l)
}

// A Near returns the peers nearest to a key: the ones that may sign a claim of a unit
// (key: the unit), or the successor of an owner that was lost with its witnesses (key: the
// owner). All peers must nearly agree on it.
type Near func(key string) []Member

// Rules are the rules of this package. The zero value has all of them; only tests can
// switch any off.
type Rules struct{ off rule.Set }

// Without returns the rules without those in off.
func Without(off rule.Set) Rules { return Rules{off} }

func (r Rules) on(x rule.Rule) bool { return !r.off.Has(x) }

// Reasons for which a link does not follow a lease.
var (
	ErrStep    = errors.New("ownership: not the next lease")
	ErrElector = errors.New("ownership: not signed by enough electors")
)

// Follows reports whether next proves that its lease is the successor of prev. A nil prev
// means that the unit had no lease.
func (r Rules) Follows(prev *Lease, next Link, near Near) error {
	l, epoch := next.Lease, uint64(1)
	var electors []Member
	switch {
	case prev != nil && (prev.Unit != l.Unit || prev.Network != l.Network):
		return ErrStep
	case prev == nil && !next.Cert.Near:
		return ErrElector
	case prev == nil:
		electors = near(l.Unit)
	case next.Cert.Near:
		epoch, electors = prev.Epoch+1, near(string(prev.Owner.ID))
	default:
		epoch, electors = prev.Epoch+1, prev.electors()
	}
	if l.Epoch != epoch || l.Prev != prev.ID() {
		return ErrStep
	}
	return r.enough(next.Cert, electors)
}

// enough reports whether a majority of the electors signed. An elector that has lost its
// disk may have forgotten a signature: it counts only if all electors signed, and so many
// still have their disks that one of them knows of any earlier certificate.
func (r Rules) enough(c Certificate, electors []Member) error {
	var same, lost int
	for _, e := range electors {
		i := slices.IndexFunc(c.Signatures, func(s Signature) bool { return s.By.ID == e.ID })
		switch {
		case i < 0:
		case c.Near || c.Signatures[i].By == e || !r.on(rule.StoreCounts):
			same++
		default:
			lost++
		}
	}
	if !r.on(rule.ElectorsOnly) {
		same = len(c.Signatures)
	}
	need := Need(len(electors))
	if !r.on(rule.Majority) {
		need--
	}
	if same >= need || same >= Keep(len(electors)) && same+lost == len(electors) {
		return nil
	}
	return ErrElector
}

// A Verdict is what a reader makes of a record.
type Verdict uint8

// The verdicts.
const (
	Unrelated Verdict = iota // not newer, or not proven: no reason to do anything
	Unproven                 // the reader knows nothing of the unit: good enough to send URLs
	Newer                    // proven to descend from what the reader knows
)

// Read compares a record with the newest lease that a reader knows, which may be nil. Links
// up to the known lease are not checked. Who was nearest to a unit when it was claimed cannot
// be known later, so that an old claim proves nothing to a reader who knows nothing.
func (r Rules) Read(known *Lease, rec Record, near Near) Verdict {
	last := rec.Newest()
	if last == nil || last.ID() == known.ID() || known != nil && last.Epoch <= known.Epoch {
		return Unrelated
	}
	if known == nil {
		return r.readFirst(rec, near)
	}
	first, prev := 0, known
	for i, l := range rec {
		if l.Lease.ID() == known.ID() {
			first = i + 1
		}
	}
	for _, l := range rec[first:] {
		if r.Follows(prev, l, near) != nil && r.on(rule.Descendant) {
			return Unrelated
		}
		prev = l.Lease
	}
	return Newer
}

// readFirst is Read for a reader that knows nothing of the unit.
func (r Rules) readFirst(rec Record, near Near) Verdict {
	for i := range rec[1:] {
		if r.Follows(rec[i].Lease, rec[i+1], near) != nil {
			return Unrelated
		}
	}
	if r.Follows(nil, rec[0], near) != nil {
		return Unproven
	}
	return Newer
}
