package ownership

import (
	"strings"
	"time"
)

// A State is what a subnet is to its owner.
type State uint8

// The states. In Deciding, Owned and Copying its pages are fetched.
const (
	None     State = iota // not this peer's
	Deciding              // owned; the strategy searches for the nearest peer
	Owned                 // owned; this peer is the nearest
	Copying               // it leaves for To, which receives a copy while work goes on
	Closed                // it leaves for To; work has stopped
	Granted               // the grant to To is signed, and To may own it
	Yielding              // another peer has a better lease
)

// A Doubt is a set of reasons why a subnet may have another owner by now. With any of them
// nothing is fetched or acknowledged.
type Doubt uint8

// The reasons for doubt.
const (
	// Stale means that the lease is too old to count until it has been renewed.
	Stale Doubt = 1 << iota
	// VotedAway means that so many witnesses have voted for another owner that the others
	// are too few to prevent it.
	VotedAway
)

// A Reason says why a subnet leaves.
type Reason uint8

// The reasons.
const (
	ReasonOther  Reason = iota
	ReasonChosen        // the strategy's choice: the successor is the nearest peer
	ReasonNearer        // a review has found a nearer peer
	ReasonHours         // this peer's working hours end: it is lent
)

// A Unit is the state of one subnet at its owner. It is a value: [Unit.Step] returns a new one.
// The zero Unit is not this peer's.
type Unit struct {
	State State
	// Decided reports whether the subnet was Owned last, and not Deciding: where it returns
	// to if it does not leave.
	Decided bool
	Doubt   Doubt
	// To is the successor, by name, in Copying, Closed and Granted; Why is why it leaves.
	To  string
	Why Reason
	// VotedAt is when the newest vote was noted that led to VotedAway.
	VotedAt time.Time
}

// Leaves reports that the subnet is on its way to another peer: it takes no hosts and no URLs.
func (u Unit) Leaves() bool { return u.State >= Closed }

// Stays reports that the subnet is not to leave.
func (u Unit) Stays() bool { return u.State == Deciding || u.State == Owned }

// Works reports that pages are fetched and URLs accepted, as far as the unit is concerned.
func (u Unit) Works() bool { return u.State != None && !u.Leaves() && u.Doubt == 0 }

// Usable reports that the subnet stays, and has no other owner as far as is known.
func (u Unit) Usable() bool { return u.Stays() && u.Doubt == 0 }

// Searches reports that the strategy has not made its choice, also while that is being
// overtaken by events. A granted subnet has been decided.
func (u Unit) Searches() bool { return u.State != None && u.State != Granted && !u.Decided }

// String names the state with the successor and the doubts, as in logs and scripts.
func (u Unit) String() string {
	s := u.State.String()
	if u.To != "" {
		s += " to " + u.To
	}
	if u.State > Owned && u.State != Granted && !u.Decided {
		s += ", not decided"
	}
	if d := u.Doubt.String(); d != "" {
		s += ", " + d
	}
	return s
}

var (
	stateNames = []string{"none", "deciding", "owned", "copying", "closed", "granted", "yielding"}
	doubtNames = []string{"stale", "voted away"}
)

// String returns the name of the state.
func (s State) String() string { return stateNames[s] }

// String lists the reasons.
func (d Doubt) String() string {
	var all []string
	for i, name := range doubtNames {
		if d&(1<<i) != 0 {
			all = append(all, name)
		}
	}
	return strings.Join(all, ", ")
}
