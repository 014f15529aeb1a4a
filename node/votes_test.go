package node

import (
	"testing"
	"time"

	"peerd/overlay/witness"
)

// A new peer votes only when all promises are over that it may have made before it lost its
// home.
func TestVotesFrom(t *testing.T) {
	before := time.Now()
	n := newNode(t, options(t))
	defer n.Close()
	at := n.Status().VotesFrom
	if at == nil || at.Sub(before) < witness.ReviveAfter || at.Sub(before) > 10*time.Minute {
		t.Errorf("VotesFrom of a new peer = %v, %v after its start", at, at.Sub(before))
	}
	o := options(t)
	o.Alone = true
	alone := newNode(t, o)
	defer alone.Close()
	if at := alone.Status().VotesFrom; at != nil {
		t.Errorf("VotesFrom of a network of one = %v, want nil", at)
	}
}
