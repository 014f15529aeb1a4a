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
