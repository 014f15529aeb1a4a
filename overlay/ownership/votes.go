package ownership

import (
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// A Vote is what is known of the votes of one witness against an owner.
type Vote struct {
	By peer.ID
	// First is when it told of the first one for which it has not been struck.
	First time.Time
	// Last is when it told of the newest one.
	Last time.Time
}

// Votes are the votes of witnesses against the owner of a unit, one entry for each witness.
// A witness that says that it has voted may lie, or its candidate may not have got the other
// votes. As long as so many of the other witnesses hear the owner that the rest are too few
// for a takeover, the vote changes nothing: whoever hears the owner has not voted, as its
// acknowledgement would say so, and does not for some time. It is a value: methods return a
// new one.
type Votes []Vote

// RevoteAfter is how long after a witness has told of a vote it may have voted again for the
// same candidate: it heard the owner when it told, and then keeps its promise of 20 s. Less
// 5 s for the reply, and a quarter for the rates of clocks.
const RevoteAfter = 10 * time.Second

// Add notes that a witness told of a vote at now, and reports whether that is another vote than
// those that are known. fresh means that no vote has led to a doubt yet.
func (vs Votes) Add(by peer.ID, now time.Time, fresh bool) (Votes, bool) {
	i := slices.IndexFunc(vs, func(v Vote) bool { return v.By == by })
	if i >= 0 && now.Sub(vs[i].Last) < RevoteAfter {
		return vs, false
	}
	vs = slices.Clone(vs)
	if i < 0 {
		return append(vs, Vote{By: by, First: now, Last: now}), true
	}
	if fresh {
		vs[i].First = now
	}
	vs[i].Last = now
	return vs, true
}

// Since returns the votes of which witnesses told after a time.
func (vs Votes) Since(at time.Time) Votes {
	old := func(v Vote) bool { return !v.Last.After(at) }
	if !slices.ContainsFunc(vs, old) {
		return vs
	}
	return slices.DeleteFunc(slices.Clone(vs), old)
}

// toldUntil reports whether one of the witnesses told of a vote at a time or before.
func (vs Votes) toldUntil(at time.Time) bool {
	return slices.ContainsFunc(vs, func(v Vote) bool { return !v.First.After(at) })
}

// By returns the witnesses that voted.
func (vs Votes) By() (ids []peer.ID) {
	for _, v := range vs {
		ids = append(ids, v.By)
	}
	return ids
}

// Refuted returns the witnesses of which a vote led to no lease, when there was none that is
// better at a time: revive after they told of it. Their votes count as told at that time.
func (vs Votes) Refuted(checked time.Time, revive time.Duration) (Votes, []peer.ID) {
	var by []peer.ID
	for i, v := range vs {
		if checked.Before(v.First.Add(revive)) {
			continue
		}
		if by == nil {
			vs = slices.Clone(vs)
		}
		vs[i].First = checked
		by = append(by, v.By)
	}
	return vs, by
}

// Told notes that a witness told the owner of u of a vote at now, and returns the event that
// follows: Outvoted, if the other witnesses may be too few to prevent a takeover; Renewed with
// the zero time, if the lease has only to be read again to see whether there is a better one;
// or none. unsaved means that the unit on the disk lacks something. tooFew reports whether,
// without some witnesses, the others may be too few.
func (vs Votes) Told(
	u Unit, by peer.ID, now time.Time, unsaved bool, tooFew func(Votes) bool,
) (Votes, EventKind) {
	doubted := u.Doubt&VotedAway != 0
	vs, another := vs.Add(by, now, !doubted)
	switch {
	case !another && !unsaved:
		return vs, 0
	case doubted || tooFew(vs):
		return vs, Outvoted
	case another:
		return vs, Renewed
	}
	return vs, 0
}

// Recounted returns the votes that count at now, and the event that follows from the number of
// the other witnesses: Outvoted, if they may be too few by now and a vote may still be used;
// Upheld, if they are enough again; or none. A witness votes for no other candidate for life; a
// candidate may use a vote for revive. A witness set was last given up at retired: votes that were
// told before may have been enough under that set, whatever the other witnesses say now.
func (vs Votes) Recounted(
	u Unit, now time.Time, life, revive time.Duration, tooFew func(Votes) bool, retired time.Time,
) (Votes, EventKind) {
	doubted := u.Doubt&VotedAway != 0
	if !doubted { // else a renewal shows what became of them
		vs = vs.Since(now.Add(-life))
	}
	if len(vs) == 0 {
		return vs, 0
	}
	switch few := tooFew(vs); {
	case few && !doubted && len(vs.Since(now.Add(-revive))) > 0:
		return vs, Outvoted
	case !few && doubted && !vs.toldUntil(retired):
		return vs, Upheld
	}
	return vs, 0
}

// RanOn returns for how long the owner of a copy may have run after it last counted on that
// copy. If that is longer than an owner waits for a replica, the owner may have acknowledged
// URLs that the copy lacks, and another copy has them: this one must not take over. It returns
// false if it cannot be known.
//
// confirmed is when the owner last counted on the copy, zero if that is not known; heard is
// when this peer last heard the owner, zero for never; started is when this process started;
// awake is when this peer last ran before that, zero for never.
func RanOn(confirmed, heard, started, awake time.Time) (time.Duration, bool) {
	switch {
	case confirmed.IsZero() && (awake.IsZero() || heard.IsZero()):
		return 0, false
	case confirmed.IsZero(): // it has not opened the copy since: our own absence counts, too
		confirmed = awake
	case confirmed.Before(started) && heard.Before(started): // since then it would have been heard
		heard = started
	}
	return heard.Sub(confirmed), true
}
