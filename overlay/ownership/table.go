package ownership

import "slices"

// transition is a row of the table: what do makes of a unit on an event in these states, and
// the states that it leads to apart from the one before.
type transition struct {
	on   EventKind
	in   []State
	do   func(Unit, Event) (Unit, []Action)
	to   []State
	text string
}

var (
	ours    = []State{Deciding, Owned, Copying, Closed, Granted, Yielding}
	notLeft = []State{Deciding, Owned, Copying, Closed} // no peer can own it by this one's consent
	working = []State{Deciding, Owned, Copying}
)

// transitions is the machine.
var transitions = []transition{
	{Began, []State{None}, begin, []State{Deciding}, "the strategy searches"},
	{Arrived, []State{None}, begin, []State{Deciding, Owned}, "it goes on as at the peer before"},
	{Loaded, []State{None}, load, []State{Deciding, Owned, Granted},
		"an intention to leave is forgotten, a grant and a doubt are not"},
	{Chosen, []State{Deciding}, choose, []State{Owned, Closed},
		"it is kept, or work stops until the successor has it"},
	{Moved, []State{Deciding, Owned}, move, []State{Copying}, "the successor receives a copy"},
	{Ready, []State{Copying}, ready, []State{Closed}, "work stops; the rest is sent"},
	{Granting, []State{Closed, Granted}, grant, []State{Granted},
		"a grant is signed if the quorum lease holds and there is no doubt, and saved"},
	{NotSaved, []State{Granted}, notSaved, []State{Closed}, "the grant does not exist"},
	{Failed, []State{Deciding, Owned, Copying, Closed, Yielding}, back, []State{Deciding, Owned},
		"it is kept, unless there is a better lease"},
	{Reclaimed, []State{Granted}, reclaim, []State{Owned},
		"the successor was lost: by votes, or long silence, there is a newer lease"},
	{Taken, []State{Granted}, end, []State{None}, "the state is a copy of the successor's"},
	{Beaten, notLeft, yield, []State{Yielding}, "work stops; the new owner gets what it may lack"},
	{Elsewhere, []State{Granted}, yield, []State{Yielding},
		"the new owner may lack what is queued here"},
	{Left, []State{Yielding}, end, []State{None}, "the state is deleted"},
	{Suspected, working, suspect, nil, "nothing is fetched until the lease has been renewed"},
	{Outvoted, notLeft, outvote, nil, "nothing is fetched until that is refuted"},
	{Upheld, ours, uphold, nil, "the doubt ends"},
	{Renewed, ours, renewed, nil,
		"the doubts end; that of a vote if its candidate's time was over when the renewal began"},
}

// Listed reports whether the table has a transition from one state to another on an event.
func Listed(from State, on EventKind, to State) bool {
	return from == to || slices.ContainsFunc(transitions, func(t transition) bool {
		return t.on == on && slices.Contains(t.in, from) && slices.Contains(t.to, to)
	})
}

var eventNames = []string{"", "began", "arrived", "loaded", "chosen", "moved", "ready", "granting",
	"not saved", "failed", "reclaimed", "taken", "beaten", "elsewhere", "left", "suspected",
	"outvoted", "upheld", "renewed"}

var actionNames = []string{"", "save", "pause", "resume", "serial", "parallel", "renew", "recheck",
	"leave"}

// String returns the name of the event.
func (k EventKind) String() string { return eventNames[k] }

// String returns the name of the action.
func (a Action) String() string { return actionNames[a] }
