package store

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalidOps is returned for operations that a correct owner never sends.
var ErrInvalidOps = errors.New("store: invalid operations")

// OpKind is the kind of an Op. The values are stored and sent: never renumber them.
type OpKind uint8

// The kinds of operations. Each sets or deletes a key, whatever its previous value.
const (
	OpHost          OpKind = 1 + iota // Rec is the record of the host
	OpDeleteHost                      // the host left the subnet: delete all of it
	OpEntry                           // Entry is queued at the position (Depth, Seq)
	OpDeleteEntry                     // no entry is queued at the position
	OpSeen                            // the URL of Digest is seen
	OpDeleteSeen                      // the URL of Digest is not seen
	OpRevisit                         // a revisit of Digest is queued
	OpDeleteRevisit                   // no revisit of Digest is queued
	OpVisit                           // Visit is planned
	OpDeleteVisit                     // no visit of Digest is planned
	OpDue                             // Digest is in the due order at Due
	OpDeleteDue                       // Digest is not in the due order at Due
	OpState                           // Raw is the state of the host
	OpDeleteState                     // the host has no state
	OpRobots                          // Raw is the robots.txt of Origin
	OpOutlink                         // Pending is an out-link, found on a page of the host
	OpDeleteOutlink                   // Digest is no longer an out-link
	// These delete a range, except what operations of the same list set:
	OpClear         // the range (Lo, Hi] of Space of the host
	OpClearHosts    // the hosts of the range (Lo, Hi)
	OpClearOutlinks // the out-links of the range (Lo, Hi]

	OpGivenUp       // GivenUp records a URL that is no longer tried
	OpDeleteGivenUp // the URL of Digest is tried again or was fetched
)

// MaxSeq is the maximum Seq of an Op. Operations of other peers raise the store's own
// sequence number to at most half of it, so false numbers cannot exhaust it.
const MaxSeq = 1 << 57

// maxLocalSeq is the limit up to which other peers raise this store's sequence number.
const maxLocalSeq = MaxSeq / 2

// Op is one change of the state of a subnet, part of a log record or of a snapshot
// piece. It contains the new state rather than the action: applying all operations after
// some state in order gives the final state, even if earlier ones are applied again. The
// values behind the pointers may be changed before Apply.
type Op struct {
	Kind    OpKind
	Name    string // host; of an out-link the host of the linking page
	Origin  string // of robots.txt
	Rec     *Host
	Entry   *Entry
	Revisit bool // of OpEntry: implies OpRevisit
	Seen    bool // of OpEntry: implies OpSeen
	Depth   int  // of a position: its place, at most 65535
	Seq     uint64
	Visit   *Visit
	GivenUp *GivenUp
	Pending *Pending
	Digest  Digest
	Due     int64 // Unix ms
	Raw     []byte
	Space   byte // of OpClear
	Lo, Hi  string
}

// URL returns the URL that o contains, if it contains one.
func (o *Op) URL() (URL, bool) {
	switch {
	case o.Entry != nil:
		return o.Entry.URL, true
	case o.Visit != nil:
		return o.Visit.URL, true
	case o.Pending != nil:
		return o.Pending.URL, true
	case o.GivenUp != nil:
		return o.GivenUp.URL, true
	}
	return "", false
}

// maxNameLen is the maximum length of a host name in DNS.
const maxNameLen = 255

func validName(s string) bool {
	return s != "" && len(s) <= maxNameLen && !strings.Contains(s, "\x00")
}

// check returns an error if no correct owner can have made o.
func (o *Op) check() error {
	if !o.validValue() || o.Seq > MaxSeq {
		return fmt.Errorf("%w: kind %d of %.100q", ErrInvalidOps, o.Kind, o.Name)
	}
	var ok bool
	switch o.Kind {
	case OpOutlink, OpDeleteOutlink: // the linking host may be unknown
		ok = len(o.Name) <= maxNameLen
	case OpClearHosts, OpClearOutlinks:
		ok = o.Name == "" && len(o.Lo) <= maxNameLen && len(o.Hi) <= maxNameLen
	default:
		ok = validName(o.Name) && len(o.Lo) <= 32 && len(o.Hi) <= 32
	}
	if !ok {
		return fmt.Errorf("%w: kind %d of a host %.100q", ErrInvalidOps, o.Kind, o.Name)
	}
	return nil
}

// validValue reports whether o has the value of its kind, and that belongs to the host.
func (o *Op) validValue() bool {
	switch o.Kind {
	case OpHost:
		return o.Rec != nil && o.Rec.Name == o.Name && o.Rec.SubnetSeq <= MaxSeq
	case OpEntry:
		return o.Entry != nil && o.Entry.URL.Host() == o.Name && o.Seq > 0
	case OpVisit:
		return o.Visit != nil && o.Visit.URL.Host() == o.Name
	case OpGivenUp:
		return o.GivenUp != nil && o.GivenUp.URL.Host() == o.Name
	case OpRobots:
		return URL(o.Origin).IsOriginOf(o.Name)
	case OpOutlink:
		return o.Pending != nil && validName(o.Pending.URL.Host())
	case OpClear:
		return clearable(o.Space)
	}
	return true
}

// clearable reports whether a space holds many keys of one host.
func clearable(space byte) bool {
	switch space {
	case spaceQueue, spaceRevisit, spaceSeen, spaceVisit, spaceDue, spaceGivenUp:
		return true
	}
	return false
}
