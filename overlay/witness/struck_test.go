package witness

import (
	"slices"
	"testing"
	"time"

	"peerd/overlay/lease"
)

// Without some witnesses the quorum lease holds as long as the others are enough.
func TestQuorumLeaseWithout(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, n := range []int{1, 2, 4} {
		members := ids(sorted(testPeers[1 : 1+n]))
		set := lease.WitnessSet{Owner: testPeers[0].id, Seq: 1, Members: members}
		h := newOwnerState(testPeers[0].id, DefaultConfig(), now, []sealedSet{{set, nil}})
		for _, id := range members {
			h.onAck(now, id, now, ack{Known: 1, Incarnation: 1})
		}
		for out := range n + 1 {
			want := n-out >= max(set.HoldQuorum(), 1)
			if out == 0 {
				want = true
			}
			if ok, _ := h.quorumLease(now, members[:out]...); ok != want {
				t.Errorf("%d of %d do not count: %v, want %v", out, n, ok, want)
			}
		}
	}
}

// A witness that was struck is replaced if there is another peer, and kept otherwise.
func TestStruckWitnessIsReplaced(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	all := ids(sorted(testPeers[1:7]))
	h := newOwnerState(testPeers[0].id, DefaultConfig(), now, nil)
	members := h.choose(now, all)
	h.install(now, sealedSet{lease.WitnessSet{Owner: testPeers[0].id, Seq: 1,
		Members: members}, nil})
	for _, id := range members {
		h.onAck(now, id, now, ack{Known: 1, Incarnation: 1})
	}
	if got := h.choose(now, all); !slices.Equal(got, members) {
		t.Fatalf("chose %v, want the same", got)
	}
	h.members[members[0]].struck = now
	if got := h.choose(now, all); len(got) != 4 || slices.Contains(got, members[0]) ||
		!slices.Contains(got, members[3]) {
		t.Errorf("chose %v, want all but the first of %v and another", got, members)
	}
	if got := h.choose(now, members); !slices.Equal(got, members) {
		t.Errorf("without another peer: %v", got)
	}
	h.install(now, sealedSet{lease.WitnessSet{Owner: testPeers[0].id, Seq: 2, Members: members[1:]},
		nil})
	h.targets(now.Add(time.Minute), members[1:])
	if got := h.choose(now.Add(time.Minute), all); slices.Contains(got, members[0]) {
		t.Error("chosen again a minute later")
	}
}
