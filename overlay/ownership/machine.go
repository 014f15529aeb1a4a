package ownership

import (
	"slices"
	"time"
)

// An EventKind is what happened.
type EventKind uint8

// The events, with who tells of them in package owner.
const (
	Began     EventKind = iota + 1 // a claim stands (arrivals)
	Arrived                        // it was handed over, or taken over; Decided (arrivals)
	Loaded                         // it was read from the disk, as Saved (Manager)
	Chosen                         // the strategy chose To, "" for this peer (placement)
	Moved                          // it is to leave for To because of Why (all that move)
	Ready                          // To has nearly all of it (departures)
	Granting                       // To was offered it, and wants the grant (departures)
	NotSaved                       // the grant was not written: no peer has it (departures)
	Failed                         // the handover has failed before the grant (departures)
	Reclaimed                      // To has not used the grant, and a newer lease is ours
	Taken                          // To owns it by the grant, and its state is a copy
	Beaten                         // a better lease is known (leases)
	Elsewhere                      // another lease than that by the grant is known (departures)
	Left                           // what the new owner may not have was sent (departures)
	Suspected                      // it may have been taken over without notice (leases)
	Outvoted                       // too few witnesses are left against a takeover (leases)
	Upheld                         // enough are left again (leases)
	Renewed                        // no better lease was known when the renewal began (leases)
)

// An Event happens to a unit. Fields that its kind does not mention are zero.
type Event struct {
	Kind    EventKind
	To      string
	Why     Reason
	Decided bool
	// Saved is the state from the disk.
	Saved Unit
	// Quorum reports, for Granting, that the quorum lease holds.
	Quorum bool
	// At is when a vote was noted, or when a renewal began.
	At time.Time
	// Revive is how long after a vote its candidate may still use it.
	Revive time.Duration
}

// An Action is what the owner of the unit does. Each may be repeated.
type Action uint8

// The actions.
const (
	Save     Action = iota + 1 // write the unit down, before another peer learns of it
	Pause                      // fetch and accept nothing
	Resume                     // fetch and accept again
	Serial                     // fetch one page at a time, each where the strategy says
	Parallel                   // fetch as politeness permits
	Renew                      // renew the lease now
	Recheck                    // renew the lease when the candidate's time is over
	Leave                      // hand over, or yield
)

// Step returns the unit after an event, and what is to be done, in order. An event that the
// table does not list for the unit's state changes nothing. It is a pure function, safe for
// concurrent use.
func (u Unit) Step(e Event) (Unit, []Action) {
	i := slices.IndexFunc(transitions, func(t transition) bool {
		return t.on == e.Kind && slices.Contains(t.in, u.State)
	})
	if i < 0 {
		return u, nil
	}
	is, acts := transitions[i].do(u, e)
	return is, append(shown(u, is), acts...)
}

// shown returns what a change means for the work on the subnet.
func shown(was, is Unit) (acts []Action) {
	switch {
	case is.State == None:
		return nil
	case is.Works() && !was.Works():
		acts = append(acts, Resume)
	case !is.Works() && (was.Works() || was.State == None):
		acts = append(acts, Pause)
	}
	switch {
	case is.Searches() && !was.Searches():
		acts = append(acts, Serial)
	case !is.Searches() && (was.Searches() || was.State == None):
		acts = append(acts, Parallel)
	}
	return acts
}

// begin handles Began and Arrived: a unit has come to this peer.
func begin(_ Unit, e Event) (Unit, []Action) {
	if e.Kind == Arrived && e.Decided {
		return Unit{State: Owned, Decided: true}, nil
	}
	return Unit{State: Deciding}, nil
}

func load(_ Unit, e Event) (Unit, []Action) { return e.Saved, nil }

// choose handles Chosen: the first choice counts.
func choose(u Unit, e Event) (Unit, []Action) {
	if e.To == "" {
		u.State, u.Decided = Owned, true
		return u, []Action{Save, Renew} // announces the proxy coordinate
	}
	u.State, u.To, u.Why = Closed, e.To, ReasonChosen
	return u, []Action{Leave}
}

// move handles Moved: the successor receives a copy while work continues.
func move(u Unit, e Event) (Unit, []Action) {
	if e.To == "" {
		return u, nil
	}
	u.State, u.To, u.Why = Copying, e.To, e.Why
	return u, []Action{Leave}
}

func ready(u Unit, _ Event) (Unit, []Action) {
	u.State = Closed
	return u, nil
}

// grant handles Granting. A grant that was signed before is sent again.
func grant(u Unit, e Event) (Unit, []Action) {
	switch {
	case u.State == Granted:
		return u, []Action{Save}
	case u.Doubt != 0, !e.Quorum:
		return u, nil
	}
	u.State = Granted
	return u, []Action{Save}
}

// back returns a unit to where it was before it was to leave.
func back(u Unit, _ Event) (Unit, []Action) {
	switch {
	case u.State == Yielding:
	case u.Decided:
		u.State = Owned
	default:
		u.State = Deciding
	}
	u.To, u.Why = "", ReasonOther
	return u, nil
}

func notSaved(u Unit, _ Event) (Unit, []Action) {
	u.State = Closed
	return u, nil
}

func reclaim(u Unit, _ Event) (Unit, []Action) {
	return Unit{State: Owned, Decided: true, Doubt: u.Doubt, VotedAt: u.VotedAt}, []Action{Save}
}

func end(Unit, Event) (Unit, []Action) { return Unit{}, nil }

// yield handles Beaten and Elsewhere.
func yield(u Unit, _ Event) (Unit, []Action) {
	u.State = Yielding
	return u, []Action{Leave}
}

func suspect(u Unit, _ Event) (Unit, []Action) {
	u.Doubt |= Stale
	return u, []Action{Renew}
}

// outvote handles Outvoted. Each new vote is written down, and prolongs the doubt.
func outvote(u Unit, e Event) (Unit, []Action) {
	u.Doubt |= VotedAway
	u.VotedAt = e.At
	return u, []Action{Save, Renew}
}

func uphold(u Unit, _ Event) (Unit, []Action) {
	u.Doubt &^= VotedAway
	u.VotedAt = time.Time{}
	return u, nil
}

// renewed handles Renewed. A vote is in doubt until a renewal began after its candidate's time.
func renewed(u Unit, e Event) (Unit, []Action) {
	u.Doubt &^= Stale
	if u.Doubt&VotedAway == 0 {
		return u, nil
	}
	if e.At.Before(u.VotedAt.Add(e.Revive)) {
		return u, []Action{Recheck}
	}
	return uphold(u, e)
}
