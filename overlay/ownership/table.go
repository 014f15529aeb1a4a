package ownership

import (
	"fmt"
	"slices"
	"strings"
)

// transition is a row of the table: what do does on an event in these states, and the
// states that it leads to apart from the one before.
type transition struct {
	on   EventKind
	in   []State // nil: all
	do   func(*step)
	to   []State
	text string
}

var (
	owning  = []State{Deciding, Owned, HandingOver, Suspended}
	working = []State{Deciding, Owned, HandingOver}
	// accepting lists what a newer lease may lead to.
	accepting = []State{None, Deciding, Owned, Ceded, Suspended, Replica, Orphaned}
)

// transitions is the machine.
var transitions = []transition{
	{Wanted, []State{None}, (*step).wanted, []State{Claiming},
		"the nearest peers are asked to sign a claim"},
	{Seen, nil, func(s *step) { s.see(s.e.Record) }, accepting,
		"a descendant of the known lease replaces it"},
	{Answered, nil, (*step).answered, accepting,
		"promises lead to requests for signatures, signatures to a certificate; " +
			"an owner that hears of a vote proposes itself"},
	{Retried, nil, (*step).retried, nil,
		"what is under way is repeated, a proposal at a higher ballot"},
	{Decided, []State{Deciding, Owned}, (*step).decided, []State{Owned, HandingOver},
		"the unit is kept, or offered to the peer"},
	{Accepted, []State{HandingOver}, (*step).accepted, nil,
		"the unit is paused, and the successor receives the last changes"},
	{Flushed, []State{HandingOver}, (*step).flushed, nil,
		"the witnesses are asked to sign the successor's lease"},
	{ReplicaReady, owning, (*step).replicaReady, nil, "the peer is counted as a replica"},
	{ReplicaLost, owning, (*step).replicaLost, []State{Deciding, Owned},
		"it is not counted; if it was to be the successor the unit is kept"},
	{WitnessesChosen, []State{Deciding, Owned},
		func(s *step) { s.propose(s.next(Renewal, s.u.Replicas...), false) }, nil,
		"the witnesses are asked to sign a renewal that names the new ones"},
	{QuorumLost, working, func(s *step) { s.suspend(NoQuorum) }, []State{Suspended},
		"nothing is fetched; a handover that was not proposed ends"},
	{QuorumBack, []State{Suspended}, func(s *step) { s.resume(NoQuorum) }, []State{Deciding, Owned},
		"the reason ends"},
	{Hindered, working, (*step).hindered, []State{Suspended},
		"nothing is fetched; a handover that was not proposed ends"},
	{Hindered, []State{Suspended}, (*step).hindered, nil, "one more reason"},
	{QuorumLost, []State{Suspended}, func(s *step) { s.suspend(NoQuorum) }, nil,
		"one more reason"},
	{Freed, []State{Suspended}, func(s *step) { s.resume(s.e.Reasons & (DiskFull | Offline)) },
		[]State{Deciding, Owned}, "the reason ends"},
	{Received, []State{Ceded}, (*step).received, []State{None}, "the state is deleted"},
	{StateReceived, nil, (*step).stateReceived, accepting,
		"an owner confirms; one that waited for the state begins"},
	{WitnessesLost, []State{Suspended, HandingOver, Replica, Ceded, Electing, Orphaned},
		(*step).witnessesLost, []State{Electing},
		"the peers nearest to the owner's key are asked instead"},
	{Offered, []State{Replica}, (*step).offered, nil, "a complete replica consents"},
	{CopyStarted, []State{None, Replica, Orphaned}, (*step).copyStarted, accepting,
		"a copy of the newest lease's owner begins"},
	{CopyComplete, []State{Replica}, (*step).copyComplete, nil, "the copy is complete"},
	{CopyComplete, []State{Orphaned}, (*step).copyComplete, []State{Owned},
		"an owner that waited for the state has it"},
	{CopyLost, []State{Replica}, (*step).copyLost, []State{None}, "the copy is deleted"},
	{OwnerSilent, []State{None}, (*step).ownerSilent, []State{Orphaned},
		"URLs wait for an owner or a copy"},
	{OwnerSilent, []State{Replica, Ceded}, (*step).ownerSilent, []State{Electing},
		"a complete replica proposes itself"},
	{OwnerLost, []State{Orphaned}, func(s *step) { s.elect(false) }, []State{Electing},
		"a peer without a copy proposes itself"},
	{OwnerHeard, []State{Electing}, (*step).ownerHeard, []State{None, Replica, Ceded},
		"the proposal ends; if it is signed all the same, Seen or Answered tells"},
	{OwnerHeard, []State{Orphaned}, func(s *step) { s.to(None) }, []State{None},
		"URLs go to the owner"},
	{Restarted, nil, (*step).restarted, []State{None, Suspended, Replica, Ceded, Orphaned},
		"what was in memory is forgotten; an owner waits for its witnesses"},
}

// Table returns the transitions as a table for docs/protocol/ownership-machine.md.
func Table() string {
	var b strings.Builder
	b.WriteString("| in state | event | leads to | what happens |\n|---|---|---|---|\n")
	for _, t := range transitions {
		in, to := "any", "the same"
		if t.in != nil {
			in = names(t.in)
		}
		if t.to != nil {
			to += ", " + names(t.to)
		}
		fmt.Fprintf(&b, "| %s | %v | %s | %s |\n", in, t.on, to, t.text)
	}
	return b.String()
}

// Listed reports whether the table has a transition from one state to another on an event.
func Listed(from State, on EventKind, to State) bool {
	return from == to || slices.ContainsFunc(transitions, func(t transition) bool {
		return t.on == on && (t.in == nil || slices.Contains(t.in, from)) &&
			slices.Contains(t.to, to)
	})
}

func names(states []State) string {
	var all []string
	for _, s := range states {
		all = append(all, s.String())
	}
	return strings.Join(all, ", ")
}

var (
	stateNames = []string{"none", "claiming", "deciding", "owned", "handing over", "ceded",
		"suspended", "replica", "electing", "orphaned"}
	eventNames = []string{"", "wanted", "seen", "answered", "retried", "decided", "replica ready",
		"replica lost", "offered", "accepted", "flushed", "received", "state received",
		"copy started", "copy complete", "copy lost", "owner silent", "owner lost", "owner heard",
		"witnesses lost", "witnesses chosen", "quorum lost", "quorum back", "hindered", "freed",
		"restarted"}
	actionNames = []string{"", "save", "send", "publish", "offer", "accept", "flush to", "cede to",
		"confirm", "inform", "pause", "resume", "adopt", "drop", "route", "report"}
	kindNames = []string{"", "claim", "handover", "renewal", "takeover", "recreate"}
)

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d", i)
}

// String returns the name of the state.
func (s State) String() string { return name(stateNames, int(s)) }

// String returns the name of the event.
func (k EventKind) String() string { return name(eventNames, int(k)) }

// String returns the name of the action.
func (k ActionKind) String() string { return name(actionNames, int(k)) }

// String returns the name of the kind.
func (k Kind) String() string { return name(kindNames, int(k)) }

// String returns "no copy", "syncing" or "complete".
func (c Copy) String() string { return name([]string{"no copy", "syncing", "complete"}, int(c)) }

// String lists the reasons.
func (r Reasons) String() string {
	var all []string
	for i, n := range []string{"no quorum", "proposed", "disk full", "offline"} {
		if r&(1<<i) != 0 {
			all = append(all, n)
		}
	}
	return strings.Join(all, ", ")
}
