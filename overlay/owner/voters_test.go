package owner

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/ownership"
	"peerd/overlay/witness"
)

// noticed passes a vote of a witness for bob on.
func noticed(t *testing.T, m *member, by peer.ID) {
	t.Helper()
	if err := m.Revoked(t.Context(), []witness.Revocation{{By: by, Subnet: subnetA, Epoch: 2,
		To: bob.id}}); err != nil {
		t.Fatal(err)
	}
}

// One witness that always says that it has voted stops no owner that enough others hear.
func TestOneLyingWitnessStopsNoOwner(t *testing.T) {
	t.Parallel()
	m, _, w := sheltered(t, bob)
	w.spare = 1
	working := func() bool {
		_, hold := m.placement.Where(subnetA)
		ok, _, _ := m.resolver.Accepts(subnetA)
		return !hold && ok && !m.frontier.is(m.frontier.shut, subnetA)
	}
	for range 3 {
		noticed(t, m, carol.id)
		if err := m.leases.recount(time.Now()); err != nil || !working() {
			t.Fatalf("stopped by one of four; %v", err)
		}
	}
	// When another witness is lost the vote may be one of enough, as long as it may be used.
	w.mu.Lock()
	w.spare = 0
	w.mu.Unlock()
	if err := m.leases.recount(time.Now()); err != nil || working() {
		t.Errorf("not stopped when the others are too few; %v", err)
	}
	w.mu.Lock()
	w.spare = 1
	w.mu.Unlock()
	if err := m.leases.recount(time.Now()); err != nil || !working() {
		t.Errorf("not resumed when the others are enough; %v", err)
	}
	noticed(t, m, folk[3].id)
	if working() {
		t.Error("not stopped by two")
	}
}

// Votes that may be enough stop an owner once, and their witnesses are replaced.
func TestVotesWithoutLeaseAreStruck(t *testing.T) {
	t.Parallel()
	m, _, w := sheltered(t, bob)
	noticed(t, m, carol.id)
	m.still("revoked")
	begin := m.subnets[subnetA].unit.VotedAt
	noticed(t, m, carol.id)
	if got := m.subnets[subnetA].unit.VotedAt; !got.Equal(begin) {
		t.Errorf("the wait began again after %v", got.Sub(begin))
	}
	m.run()
	until(t, "its witness is struck", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.Equal(w.struck, []peer.ID{carol.id})
	})
	until(t, "it goes on", func() bool {
		_, hold := m.placement.Where(subnetA)
		return !hold && !m.frontier.is(m.frontier.shut, subnetA)
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.struck) != 1 {
		t.Errorf("struck %v, want the witness once", w.struck)
	}
}

// A witness may vote again for a candidate after it has told of its first vote: the candidate's
// time begins again. One that does so again and again is replaced.
func TestRenewedVotesStop(t *testing.T) {
	t.Parallel()
	m, _, w := sheltered(t, bob)
	m.Manager.cfg.Times.Revive = witness.ReviveAfter
	s := m.subnets[subnetA]
	pass := func(d time.Duration) {
		for i := range s.votes {
			s.votes[i].First, s.votes[i].Last = s.votes[i].First.Add(-d), s.votes[i].Last.Add(-d)
		}
		if !s.unit.VotedAt.IsZero() {
			s.unit.VotedAt = s.unit.VotedAt.Add(-d)
		}
	}
	w.spare = 1
	noticed(t, m, carol.id)
	pass(witness.ReviveAfter + time.Second)
	w.spare = 0
	if err := m.leases.recount(time.Now()); err != nil || s.unit.Doubt != 0 {
		t.Errorf("stopped by a vote that cannot be used any more; %v", err)
	}
	noticed(t, m, carol.id)
	m.still("voted again later")
	for range 4 {
		pass(ownership.RevoteAfter)
		before := s.unit.VotedAt
		noticed(t, m, carol.id)
		if s.unit.VotedAt.Sub(before) < ownership.RevoteAfter {
			t.Error("a renewed vote did not begin the wait again")
		}
		m.leases.settled(s, time.Now())
		m.still("the last vote may be in use")
	}
	if !slices.Equal(w.struck, []peer.ID{carol.id}) {
		t.Errorf("struck %v, want the witness once", w.struck)
	}
}
