package witness

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// An owner that returns is notified of all votes before its quorum lease holds again. Each
// witness repeats a notice only until it is acknowledged, also after a restart.
func TestOwnerNotifiedOfVotes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 5)
		defer f.end()
		var mu sync.Mutex // guards the following
		notified := map[netip.Prefix]int{}
		refuse := true
		early := false
		all[0].tells.revoked = func(_ context.Context, list []Revocation) error {
			mu.Lock()
			defer mu.Unlock()
			s := all[0].service()
			if ok, _ := s.QuorumLease(); ok && len(notified) < 600 {
				early = true
			}
			if refuse {
				return errors.New("disk full")
			}
			for _, r := range list {
				if r.To != all[1].id || r.Epoch != 2 {
					t.Errorf("Revoked got %+v, want epoch 2 and %v", r, all[1].id)
				}
				notified[r.Subnet]++
			}
			return nil
		}
		time.Sleep(time.Minute)
		set := all[0].service().WitnessSet()
		all[0].kill()
		time.Sleep(30 * time.Second)
		for batch := range 3 { // 600 subnets: more than fit into one ack
			var proposals []Proposal
			for i := range 200 {
				proposals = append(proposals,
					Proposal{Epoch: 2, Subnet: netip.PrefixFrom(
						netip.AddrFrom4([4]byte{10, byte(batch), byte(i), 0}), 24)})
			}
			tally, err := all[1].service().RequestVotes(t.Context(), all[0].id, set, proposals)
			if err != nil || len(tally.Votes) != 200 {
				t.Fatalf("RequestVotes() = %d subnets with votes, %v, failed %v; want 200",
					len(tally.Votes), err, tally.Failed)
			}
		}
		all[2].kill()
		all[2].start(t)
		s := all[0].start(t)
		time.Sleep(10 * time.Second)
		mu.Lock()
		if ok, _ := s.QuorumLease(); ok || len(notified) != 0 {
			t.Errorf("QuorumLease() = %v after Revoked failed, want false", ok)
		}
		refuse = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		mu.Lock()
		if ok, _ := s.QuorumLease(); !ok || len(notified) != 600 || early {
			t.Errorf(
				"QuorumLease() = %v, %d notices, lease before the last: %v; want true, 600, false",
				ok, len(notified), early)
		}
		mu.Unlock()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		for p, n := range notified {
			if n > 4 {
				t.Fatalf("notified of %v %d times, want at most once by each of 4 witnesses", p, n)
			}
		}
		n := len(notified)
		time.Sleep(2 * VoteLife)
		all[3].kill()
		all[3].start(t) // has deleted votes that are acknowledged
		if len(all[3].service().witness.watched[all[0].id].votes) != 0 || n != len(notified) {
			t.Error("votes are kept that the owner has acknowledged, want them deleted")
		}
	})
}

// A running owner keeps its quorum lease and is not voted out, even on a lossy network and
// while witnesses are replaced.
func TestLiveOwnerKeepsLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		f.mu.Lock()
		f.loss, f.delay = 0.05, 200*time.Millisecond
		f.mu.Unlock()
		time.Sleep(time.Minute)
		s := all[0].service()
		for i := range 600 {
			if ok, _ := s.QuorumLease(); !ok {
				t.Fatalf("QuorumLease() = false after %d s, want true", i)
			}
			if by := all[1+i%7]; by.service() != nil {
				tally := requestVotes(t, by, all[0].id, s.WitnessSet())
				if _, won := tally.Takeover(subnet); won {
					t.Fatalf("the owner was voted out after %d s, want enough refusals", i)
				}
			}
			if i%100 == 50 { // one witness stops, another starts
				p, _ := lease.OpenWitnessSet(s.WitnessSet())
				for _, n := range all[1:] {
					if n.service() == nil {
						n.start(t)
					}
				}
				f.nodes[p.Members[i/100%len(p.Members)]].kill()
				t.Logf("set %d of %d members", p.Seq, len(p.Members))
			}
			time.Sleep(time.Second)
		}
	})
}

// When three of four witnesses stop at once, there is no quorum lease for an hour; then
// there is one without them, after leases were read again.
func TestOwnerOutlivesItsWitnesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		var rereads atomic.Int32
		time.Sleep(30 * time.Second)
		s := all[0].service()
		all[0].tells.reread = func() { rereads.Add(1) }
		p, _ := lease.OpenWitnessSet(s.WitnessSet())
		for _, id := range p.Members[:3] {
			f.nodes[id].kill()
		}
		time.Sleep(all[0].cfg.Hold + 100*time.Millisecond)
		if ok, _ := s.QuorumLease(); ok {
			t.Error("QuorumLease() = true without witnesses, want false")
		}
		time.Sleep(lease.LongSilence - 2*time.Minute)
		if ok, _ := s.QuorumLease(); ok || rereads.Load() != 0 {
			t.Error("the witnesses were given up before lease.LongSilence")
		}
		time.Sleep(4 * time.Minute)
		if ok, _ := s.QuorumLease(); !ok || rereads.Load() != 1 {
			t.Errorf("QuorumLease() = %v after %d rereads an hour later, want true after 1",
				ok, rereads.Load())
		}
	})
}

// A published witness set is known after a restart; one that could not be written is not
// published.
func TestWitnessSetIsDurable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 5)
		defer f.end()
		time.Sleep(30 * time.Second)
		before := all[0].service().WitnessSet()
		all[0].kill()
		s := all[0].start(t)
		if !bytes.Equal(s.WitnessSet(), before) {
			t.Error("WitnessSet() has changed by a restart")
		}
		if ok, _ := s.QuorumLease(); ok {
			t.Error("QuorumLease() = true before any witness answered, want false")
		}
		all[0].disk.(*memStore).setFull(true)
		f.nodes[f.add(testPeers[5]).id].cfg.Members = 0
		f.nodes[testPeers[5].id].start(t)
		p, _ := lease.OpenWitnessSet(before)
		f.nodes[p.Members[0]].kill()
		time.Sleep(2 * time.Minute)
		if !bytes.Equal(s.WitnessSet(), before) {
			t.Error("WitnessSet() has changed although it could not be written")
		}
		all[0].disk.(*memStore).setFull(false)
		time.Sleep(2 * time.Minute)
		p, err := lease.OpenWitnessSet(s.WitnessSet())
		if err != nil || !slices.Contains(p.Members, testPeers[5].id) {
			t.Errorf("WitnessSet() = %+v, %v; want %v in it", p, err, testPeers[5].id)
		}
	})
}

// A witness set that has ceased to be in force is not in force again after a restart: its members
// may be gone.
func TestRetiredSetIsNotRestored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		time.Sleep(30 * time.Second)
		p, err := lease.OpenWitnessSet(all[0].service().WitnessSet())
		if err != nil || len(p.Members) != 4 {
			t.Fatalf("WitnessSet() = %+v, %v, want four members", p, err)
		}
		for _, id := range p.Members[:2] {
			f.nodes[id].kill()
		}
		time.Sleep(2 * time.Minute) // the others know the next one
		all[0].kill()
		for _, id := range p.Members[2:] {
			f.nodes[id].kill()
		}
		s := all[0].start(t)
		time.Sleep(all[0].cfg.Hold)
		if ok, _ := s.QuorumLease(); !ok {
			t.Error("no quorum lease after a restart, though two of the four witnesses answer")
		}
	})
}

// A candidate with an old witness set receives the new one and asks again.
func TestRequestVotesFollowsNewerSet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 6)
		defer f.end()
		time.Sleep(30 * time.Second)
		old := all[0].service().WitnessSet()
		p, _ := lease.OpenWitnessSet(old)
		dead := f.nodes[p.Members[0]]
		dead.kill()
		time.Sleep(time.Minute)
		now := all[0].service().WitnessSet()
		all[0].kill()
		time.Sleep(all[0].cfg.Promise + time.Second) // a heartbeat may be in flight
		by := f.nodes[p.Members[1]]
		tally := requestVotes(t, by, all[0].id, old)
		if _, won := tally.Takeover(subnet); !won || !bytes.Equal(tally.WitnessSet, now) {
			t.Errorf("%d votes, heard by %v, failed %v; want enough votes under the new set",
				len(tally.Votes[subnet]), tally.HeardOwner, tally.Failed)
		}
	})
}

// A witness set is in force until its members have told of all their votes: one that knows the
// newer set may have voted before, and its acknowledgement may have room for a part only. It also
// is as long as such a vote may be used with those of others.
func TestSetRetiredAfterLastNotice(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, first := newSealedSet(t, 1, testPeers[1:5]...)
	q, second := newSealedSet(t, 2, testPeers[3:7]...)
	h := newOwnerState(testPeers[0].id, DefaultConfig(), now, []sealedSet{{p, first}, {q, second}})
	votes := []notice{{Num: 1, Subnet: subnet, Epoch: 2, To: testPeers[1].id}}
	answer := func(more bool, by ...testPeer) (held bool) {
		for _, w := range by {
			h.onAck(now, w.id, now, ack{Known: 2, Incarnation: 7, More: more, Notices: votes})
		}
		h.retireSets(now)
		held, _ = h.quorumLease(now)
		return held
	}
	if answer(true, testPeers[3:5]...) || answer(false, testPeers[5:7]...) || len(h.sets) != 2 {
		t.Errorf("%d sets in force and a quorum lease before the last notice", len(h.sets))
	}
	if !answer(false, testPeers[3:5]...) || len(h.sets) != 2 || !h.retired.IsZero() {
		t.Errorf("%d sets in force just after the last notice, want 2 and a quorum lease",
			len(h.sets))
	}
	votes, now = nil, now.Add(ReviveAfter)
	if !answer(false, testPeers[3:7]...) || len(h.sets) != 1 || !h.retired.Equal(now) {
		t.Errorf("%d sets in force when no vote can be used any more, want 1 and a quorum lease",
			len(h.sets))
	}
}

// TestEndlessNotices verifies that a witness that tells of votes without end is replaced.
func TestEndlessNotices(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 7)
		defer f.end()
		time.Sleep(30 * time.Second)
		s := all[0].service()
		p, err := lease.OpenWitnessSet(s.WitnessSet())
		if err != nil {
			t.Fatal(err)
		}
		liar := p.Members[0]
		var told atomic.Int32
		all[0].setAfter(func(_ *node, by peer.ID, r reply) {
			if by == liar && r.Ack != nil {
				r.Ack.More, r.Ack.Notices = true, []notice{{Num: uint64(told.Add(1)),
					Subnet: subnet, Epoch: 2, To: liar}}
			}
		})
		time.Sleep(10 * time.Minute)
		if n := told.Load(); n > 2*maxInARow {
			t.Errorf("heard %d times of votes, want at most %d", n, 2*maxInARow)
		}
		if p, err = lease.OpenWitnessSet(s.WitnessSet()); err != nil || p.Has(liar) {
			t.Errorf("witnesses are %v, %v; want others than %v", p.Members, err, liar)
		}
		if ok, _ := s.QuorumLease(); !ok {
			t.Error("QuorumLease() = false, want true")
		}
	})
}

// TestForgetfulWitness verifies that leases are read again because of a witness that has lost its
// disk only if the others are too few to know of all takeovers.
func TestForgetfulWitness(t *testing.T) {
	t.Parallel()
	for others, want := range []bool{true, true, false, false} {
		now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
		p, sealed := newSealedSet(t, 7, testPeers[1:5]...)
		h := newOwnerState(testPeers[0].id, DefaultConfig(), now, []sealedSet{{p, sealed}})
		answer := func(known uint64, by testPeer) {
			h.onAck(now, by.id, now, ack{Known: known, Incarnation: 3})
		}
		liar := testPeers[1]
		for round := range 3 {
			answer(7, liar)
			answer(0, liar)
			now = now.Add(ReviveAfter)
			for _, w := range testPeers[2 : 2+others] {
				answer(7, w)
			}
			if h.recovered(now.Add(-1)) {
				t.Errorf("%d others, round %d: leases are read before votes are used", others,
					round)
			}
			if got := h.recovered(now); got != want {
				t.Errorf("%d others, round %d: leases are read again: %v, want %v", others, round,
					got, want)
			}
			if !h.struck(now, liar.id) {
				t.Errorf("%d others, round %d: the witness is kept", others, round)
			}
			answer(7, liar)
			if held, _ := h.quorumLease(now); held != (others > 0) {
				t.Errorf("%d others, round %d: quorum lease %v with the witness", others, round,
					held)
			}
		}
		answer(0, liar)
		now = now.Add(ReviveAfter)
		for _, w := range testPeers[2 : 2+others] {
			h.onAck(now, w.id, now, ack{Known: 7, Incarnation: 3,
				Notices: []notice{{Num: 1, Subnet: subnet, Epoch: 2, To: testPeers[5].id}}})
		}
		if !h.recovered(now) {
			t.Errorf("%d others that have voted: leases are not read again", others)
		}
		h.reread()
		answer(7, liar)
		answer(0, liar)
		now = now.Add(ReviveAfter)
		for _, w := range testPeers[2 : 2+others] {
			answer(7, w)
		}
		if got := h.recovered(now); got != want {
			t.Errorf("%d others that had voted before: leases are read again: %v, want %v", others,
				got, want)
		}
	}
}
