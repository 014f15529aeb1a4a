package store

import (
	"errors"
	"fmt"
	"strings"
)

// ErrBadOps is returned for a list of changes that no honest owner sends.
var ErrBadOps = errors.New("store: bad list of changes")

// OpKind says what an Op changes. Stored, and sent: never renumber.
type OpKind uint8

// The kinds of change. Each sets or deletes what it names, whatever was there.
const (
	OpHost       OpKind = 1 + iota // Rec is the host's record
	OpHostGone                     // the host is no longer in the subnet: nothing of it is left
	OpEntry                        // Entry waits in place (Depth, Seq)
	OpUnqueue                      // nothing waits there
	OpSeen                         // the URL of Digest is seen
	OpUnseen                       // it is not
	OpAgain                        // a revisit of it is in the queue
	OpUnagain                      // none is
	OpVisit                        // Visit is kept
	OpUnvisit                      // that of Digest is not
	OpDue                          // Digest is to be visited at Due
	OpUndue                        // it is not in the order of time there
	OpState                        // Raw is the state of the host
	OpUnstate                      // it has none
	OpRobots                       // Raw is the robots.txt of Origin
	OpOutlink                      // Pending, found on a page of the host, waits for its owner
	OpNoOutlink                    // that of Digest waits no more
	OpClear                        // of Space, the host has from Lo to Hi only what the ops behind this one set
	OpClearHosts                   // the same of hosts with names between Lo and Hi, both exclusive
	OpClearLinks                   // the same of the digests of out-links
	opKinds
)

// MaxPlace bounds the Seq of an Op. A store's own counter is raised by others
// to half of it at most: who lies about places can not use them up.
const MaxPlace = 1 << 57

// maxOwnPlace is how far others raise this store's counter of places.
const maxOwnPlace = MaxPlace / 2

// Op is one change of what a subnet's owner keeps: a piece of a record of the
// log, or of a snapshot. It says what is, not what was done: who has the state
// of any moment and applies all that came after it, in order, or all that came
// after an earlier moment, has the state of the end. What is in the pointers
// may be changed before Apply.
type Op struct {
	Kind    OpKind
	Name    string // the host; of out-links the one that they were found at
	Origin  string // of robots.txt
	Rec     *Host
	Entry   *Entry
	Again   bool // of OpEntry: OpAgain too
	Seen    bool // of OpEntry: OpSeen too
	Depth   int  // of a place: Entry.Depth as far as places have it
	Seq     uint64
	Visit   *Visit
	Pending *Pending
	Digest  Digest
	Due     int64 // Unix ms
	Raw     []byte
	Space   byte // of OpClear
	Lo, Hi  string
}

// Host returns the host of the subnet that o is about; "" when it is none.
func (o *Op) Host() string { return o.Name }

// URL returns the URL that o brings, if it brings one.
func (o *Op) URL() (URL, bool) {
	switch {
	case o.Entry != nil:
		return o.Entry.URL, true
	case o.Visit != nil:
		return o.Visit.URL, true
	case o.Pending != nil:
		return o.Pending.URL, true
	}
	return "", false
}

// maxNameLen bounds a host's name here: no name of DNS is longer.
const maxNameLen = 255

func goodName(s string) bool {
	return s != "" && len(s) <= maxNameLen && !strings.Contains(s, "\x00")
}

// check says whether o is one that an owner can have made.
func (o *Op) check() error {
	ok := true
	switch o.Kind {
	case OpHost:
		ok = o.Rec != nil && o.Rec.Name == o.Name && o.Rec.Since <= MaxPlace
	case OpEntry:
		ok = o.Entry != nil && o.Entry.URL.Host() == o.Name && o.Seq > 0
	case OpVisit:
		ok = o.Visit != nil && o.Visit.URL.Host() == o.Name
	case OpRobots:
		u := URL(o.Origin)
		ok = u.Host() == o.Name && u.Origin() == o.Origin
	case OpOutlink:
		ok = o.Pending != nil && goodName(o.Pending.URL.Host())
	case OpClear:
		ok = clearable(o.Space)
	}
	if !ok || o.Seq > MaxPlace {
		return fmt.Errorf("%w: kind %d of %.100q", ErrBadOps, o.Kind, o.Name)
	}
	switch o.Kind {
	case OpOutlink, OpNoOutlink: // the host it was found at may be unknown
		ok = len(o.Name) <= maxNameLen
	case OpClearHosts, OpClearLinks:
		ok = o.Name == "" && len(o.Lo) <= maxNameLen && len(o.Hi) <= maxNameLen
	default:
		ok = goodName(o.Name) && len(o.Lo) <= 32 && len(o.Hi) <= 32
	}
	if !ok {
		return fmt.Errorf("%w: kind %d of a host %.100q", ErrBadOps, o.Kind, o.Name)
	}
	return nil
}

// clearable says whether a space holds what a host has many of.
func clearable(space byte) bool {
	switch space {
	case spaceQueue, spaceAgain, spaceSeen, spaceVisit, spaceDue:
		return true
	}
	return false
}
