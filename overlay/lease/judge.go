package lease

import (
	"bytes"
	"cmp"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/clock"
	"peerd/internal/lru"

	"github.com/libp2p/go-libp2p/core/peer"
)

const (
	// young is how long two claims of a subnet count as made at the same time, from when a
	// peer first saw the one that it has. It outlasts the settling, and two of the reads
	// after it.
	young = 45 * time.Second
	// youngStep is the same for two successors of one lease. Both were named by those who
	// may do so.
	youngStep = 6 * time.Minute
	// sameTime is how far apart two steps are first seen that one peer shows.
	sameTime = time.Second
	// maxSeen is how many steps a Judge remembers.
	maxSeen = 1 << 15
)

// A Judge decides which of two leases of a subnet stands, by what they prove and by what one
// peer has seen. It is shared by all of a peer that compares leases, and safe for concurrent
// use. A nil Judge has seen nothing.
//
// A lease replaces the one that is known if
//
//   - it is a later record of the same step; or
//   - it proves that it descends from it, and for each step that was taken because an owner was
//     silent, this peer knows of the silence; or
//   - both are successors of the same lease, or claims, and the peers that made them may not have
//     known of each other: then Better decides, but of claims first their receipts do, and then
//     whether one is by a peer that joined while who made the other one was away. That is so if the
//     known one has just been seen first, or came to be known while this peer did not hear the
//     owner of the other one, or those who signed its receipts.
//
// All else is what a stranger could write as well.
type Judge struct {
	clock    clock.Clock
	contacts Contacts

	mu   sync.Mutex
	seen *lru.Simple[Digest, time.Time] // when a step was first seen
}

// Contacts is what a Judge has to know about other peers. The methods answer from memory and may
// be called concurrently. Times are by the clock of the Judge.
type Contacts interface {
	// Silent reports whether this peer knows that another one, or itself, was not heard in a
	// time.
	Silent(p peer.ID, from, to time.Time) bool
	// Apart reports whether another peer, which this one knew before, or of which such peers have
	// told that it joined them, may not have known what came to be known here at a time.
	Apart(p peer.ID, at time.Time) bool
	// Joined reports whether a peer, which may be this one, joined while another one was away, as
	// far as this peer knows. The other one then takes it for a stranger.
	Joined(p, while peer.ID) bool
	// Nearest returns the members nearest to the key of the lease of a subnet, this peer
	// included, of those that it has known for so long that none was made for an attack on a new
	// claim. It returns none where members do not know all others. The caller may change it.
	Nearest(subnet netip.Prefix) []peer.ID
}

// NewJudge returns a Judge that has seen nothing. If contacts is nil, every peer was always silent
// and none was ever apart.
func NewJudge(c clock.Clock, contacts Contacts) *Judge {
	return &Judge{clock: c, contacts: contacts,
		seen: lru.NewSimple[Digest, time.Time](maxSeen, nil)}
}

// See records that the steps of l were known at a time, if they were not known before.
func (j *Judge) See(l Lease, at time.Time) {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range l.steps() {
		d := k.digest(l.Network, l.Subnet)
		if old, ok := j.seen.Get(d); !ok || at.Before(old) {
			j.seen.Add(d, at)
		}
	}
}

// since returns when a step of l was first seen; the zero time if that is not known.
func (j *Judge) since(l Lease, k Link) time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	at, _ := j.seen.Get(k.digest(l.Network, l.Subnet))
	return at
}

// sinceSigned is since for a step of the known lease: it is older than that it was seen here.
// Others can make this peer forget what it has seen, and see it again as if it were new, for Skew
// at most.
func (j *Judge) sinceSigned(known Lease, k Link) time.Time {
	since := j.since(known, k)
	for _, signed := range []time.Time{known.Issued, k.Claimed} {
		if at := signed.Add(Skew); !signed.IsZero() && since.After(at) {
			since = at
		}
	}
	return since
}

// Replaces reports whether l takes the place of the known lease.
func (j *Judge) Replaces(known, l Lease) bool {
	if known.Network != l.Network || known.Subnet != l.Subnet {
		return false
	}
	d := known.Digest()
	if l.Digest() == d {
		return j.later(l, known) > 0
	}
	if j == nil || l.Owner == known.Owner && l.Epoch == known.Epoch {
		return Better(l, known) > 0 // its own word, in the latter case
	}
	if i := l.after(d); i >= 0 {
		return j.believes(l.steps()[i+1:], known)
	}
	if l.Epoch <= known.Epoch && known.Follows(l) {
		return false
	}
	switch j.contested(known, l) {
	case claimedAtOnce:
		return cmp.Or(j.rank(l, true)-j.rank(known, true), Better(l, known)) > 0
	case claimedApart:
		return cmp.Or(j.rank(l, false)-j.rank(known, false), j.joined(known, l),
			Better(l, known)) > 0
	case followedAtOnce:
		return Better(l, known) > 0
	}
	return false
}

// later orders two records of one step: positive if a is later than b, or has receipts that b
// lacks.
func (j *Judge) later(a, b Lease) int {
	c := Better(a, b)
	if c != 0 || bytes.Equal(a.Receipts, b.Receipts) {
		return c
	}
	return j.rank(a, true) - j.rank(b, true)
}

// believes reports whether this peer believes that the owners were silent which were followed
// without votes. One that cannot know waits until the known lease has expired.
func (j *Judge) believes(steps []Link, known Lease) bool {
	if j.contacts == nil {
		return true
	}
	for _, k := range steps {
		if k.Takeover == nil || !k.Takeover.Slow() {
			continue
		}
		from, err := k.Takeover.From()
		if err != nil {
			return false
		}
		at := k.Takeover.At
		if !j.contacts.Silent(from, at.Add(-LongSilence), at) && !known.Expired(j.clock.Now()) {
			return false
		}
	}
	return true
}

// A contest says why two leases, of which none descends from the other, may have come to be without
// knowledge of each other.
type contest uint8

const (
	notContested   contest = iota // they have not
	claimedAtOnce                 // they are of two claims, both young
	claimedApart                  // of two claims, by peers that were apart or may have been
	followedAtOnce                // of two successors of one lease
)

// contested returns the contest that a lease and the known one are in.
func (j *Judge) contested(known, l Lease) contest {
	mine, other, ok := fork(known, l)
	if !ok {
		return notContested
	}
	now, since := j.clock.Now(), j.sinceSigned(known, mine)
	limit, why := youngStep, followedAtOnce
	if mine.Epoch == 1 {
		limit, why = young, claimedAtOnce
	}
	if now.Sub(since) <= limit {
		if at := j.since(l, other); why == claimedAtOnce && !at.IsZero() && now.Sub(at) > young {
			return claimedApart // the same whichever of them is known
		}
		return why
	}
	if j.contacts == nil || since.IsZero() ||
		!j.contacts.Apart(other.Owner, since) && !j.vouched(l, since) {
		return notContested
	}
	if mine.Epoch == 1 {
		return claimedApart
	}
	return followedAtOnce
}

// vouched reports whether the claim of l has enough receipts of peers that were apart at a time.
// They knew the claimant, who may be a stranger here.
func (j *Judge) vouched(l Lease, at time.Time) bool {
	n := 0
	for _, p := range l.signers() {
		if j.contacts.Apart(p, at) {
			n++
		}
	}
	return n >= minReceipts
}

// joined orders two leases of different claims without receipts: the one is better of which the
// claimant was away when that of the other one joined. There the latter is a stranger, of which no
// claim can stand.
func (j *Judge) joined(known, l Lease) int {
	mine, other, ok := fork(known, l)
	switch {
	case !ok || j.contacts == nil || j.rank(known, false) > 0:
		return 0
	case j.contacts.Joined(mine.Owner, other.Owner):
		return 1
	case j.contacts.Joined(other.Owner, mine.Owner):
		return -1
	}
	return 0
}

// ActedApart reports whether the owner of l, which the known lease has ended, was apart when the
// known one came to be, so that it may have gone on fetching in good faith. Of two claims the one
// without receipts may be made up later, if the other one has them.
func (j *Judge) ActedApart(known, l Lease) bool {
	if j == nil || j.contacts == nil || known.Network != l.Network || known.Subnet != l.Subnet {
		return false
	}
	mine, _, ok := fork(known, l)
	if !ok { // by a takeover, or not at all
		i := known.after(l.Digest())
		if i < 0 {
			return false
		}
		mine = known.steps()[i+1]
		ok = mine.Takeover != nil
	}
	return ok && (mine.Epoch > 1 || j.rank(l, false) >= j.rank(known, false)) &&
		j.contacts.Apart(l.Owner, j.sinceSigned(known, mine))
}

// most reports whether of the old members nearest to the key of l, without its owner, at least two
// and most hold a lease of another step.
func (j *Judge) most(l Lease, held map[peer.ID][]byte) bool {
	if j == nil || j.contacts == nil {
		return false
	}
	all, n := 0, 0
	for _, p := range j.contacts.Nearest(l.Subnet) {
		if p == l.Owner {
			continue
		}
		all++
		if other, err := OpenLease(held[p]); err == nil && other.Digest() != l.Digest() {
			n++
		}
	}
	return n >= 2 && 2*n > all
}

// better returns the one of two leases that stands, where none is known to be the first: it is
// the one that was seen first unless the other replaces it. Of two that are as old b is meant,
// because the DHT shows a record holder its own record last.
func (j *Judge) better(a, b Lease) (first bool) {
	if a.Digest() == b.Digest() {
		return j.later(a, b) >= 0
	}
	if j == nil {
		return Better(a, b) > 0
	}
	if j.since(b, b.link()).Sub(j.since(a, a.link())) > sameTime {
		return !j.Replaces(a, b)
	}
	return j.Replaces(b, a)
}
