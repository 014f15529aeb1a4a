package node

import (
	"testing"
	"time"

	"peerd/overlay/witness"
)

// A new peer says when it begins to vote: not before whatever it may have promised in
// a life that it has forgotten is over.
func TestStatusSaysWhenItVotes(t *testing.T) {
	before := time.Now()
	n := newNode(t, options(t))
	defer n.Close()
	at := n.Status().VotesFrom
	if at == nil || at.Sub(before) < witness.ReviveAfter || at.Sub(before) > 10*time.Minute {
		t.Errorf("a new peer votes from %v on, %v after its start", at, at.Sub(before))
	}
	o := options(t)
	o.Alone = true
	alone := newNode(t, o)
	defer alone.Close()
	if at := alone.Status().VotesFrom; at != nil {
		t.Errorf("a network of one votes from %v on", at)
	}
}
