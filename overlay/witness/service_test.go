package witness

import (
	"bytes"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

var subnet = netip.MustParsePrefix("203.0.113.0/24")

// startPeers starts n peers, of which the first has witnesses.
func startPeers(t *testing.T, n int) (*fakeNet, []*node) {
	f := newNet(1)
	var all []*node
	for i := range n {
		m := f.add(testPeers[i])
		if i > 0 {
			m.cfg.Members = 0
		}
		all = append(all, m)
	}
	for _, m := range all {
		m.start(t)
	}
	return f, all
}

func TestWitnessSetForms(t *testing.T) {
	t.Parallel()
	for n, members := range map[int]int{1: 0, 2: 1, 3: 2, 4: 2, 5: 4, 8: 4} {
		synctest.Test(t, func(t *testing.T) {
			f, all := startPeers(t, n)
			defer f.end()
			time.Sleep(30 * time.Second)
			s := all[0].service()
			if ok, until := s.QuorumLease(); !ok || (members > 1) == until.IsZero() {
				t.Errorf("%d peers: QuorumLease() = %v, %v; want true with an end: %v",
					n, ok, until, members > 1)
			}
			if members == 0 {
				if s.WitnessSet() != nil {
					t.Errorf("%d peers: WitnessSet() is not nil", n)
				}
				return
			}
			p, err := lease.OpenWitnessSet(s.WitnessSet())
			if err != nil || len(p.Members) != members || p.Owner != all[0].id {
				t.Errorf("%d peers: WitnessSet() = %+v, %v; want %d members", n, p, err, members)
			}
		})
	}
}

// A peer without subnets sends half as many heartbeats, has the quorum lease all the same, and
// sends as many as others within a second of a claim.
func TestIdleHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		a := all[0]
		var sent atomic.Int64
		a.before = func(*node) { sent.Add(1) }
		a.tells.idle.Store(true)
		time.Sleep(30 * time.Second)
		count := func(over time.Duration) int64 {
			sent.Store(0)
			for range int(over / time.Second) {
				time.Sleep(time.Second)
				if ok, _ := a.service().QuorumLease(); !ok {
					t.Fatal("an idle peer lost the quorum lease")
				}
			}
			return sent.Load()
		}
		// A count may begin with a heartbeat and end with one to each witness.
		witnesses, minute := int64(a.cfg.Members), time.Minute
		if n, want := count(10*minute), witnesses*60; n < want-30 || n > want+witnesses {
			t.Errorf("%d heartbeats in ten minutes without subnets, want %d", n, want)
		}
		a.tells.idle.Store(false)
		if n := count(6 * time.Second); n < witnesses {
			t.Errorf("%d heartbeats within 6 s of a claim, want one to each witness", n)
		}
		if n, want := count(10*minute), witnesses*120; n < want-100 || n > want+witnesses {
			t.Errorf("%d heartbeats in ten minutes with subnets, want %d", n, want)
		}
	})
}

// claimBy returns the lease of owner that the votes of requestVotes end.
func claimBy(owner peer.ID) lease.Lease {
	return lease.Lease{Subnet: subnet, Owner: owner, Epoch: 1}
}

// requestVotes has one peer request the votes for subnet.
func requestVotes(t *testing.T, by *node, owner peer.ID, set []byte) Tally {
	t.Helper()
	tally, err := by.service().RequestVotes(t.Context(), owner, set,
		[]Proposal{{Subnet: subnet, Epoch: 2, Ended: claimBy(owner).Digest()}})
	if err != nil {
		t.Fatal(err)
	}
	return tally
}

func TestDeadOwnerIsVotedOut(t *testing.T) {
	t.Parallel()
	for _, n := range []int{3, 5, 8} {
		synctest.Test(t, func(t *testing.T) {
			f, all := startPeers(t, n)
			defer f.end()
			time.Sleep(time.Minute)
			set := all[0].service().WitnessSet()
			if tally := requestVotes(t, all[1], all[0].id, set); len(tally.HeardOwner) == 0 {
				t.Fatalf("%d peers: RequestVotes() = %+v with the owner running, want refusals",
					n, tally)
			} else if _, ok := tally.Takeover(subnet); ok {
				t.Fatalf("%d peers: a running owner is voted out", n)
			}
			all[0].kill()
			died := time.Now()
			for {
				tally := requestVotes(t, all[1], all[0].id, set)
				if e, ok := tally.Takeover(subnet); ok {
					t.Logf("%d peers: voted out after %v", n, time.Since(died))
					l := claimBy(all[0].id).Next(all[1].id)
					l.Issued, l.Expires = all[1].clock(), all[1].clock().Add(time.Hour)
					l.Takeover = &e
					if _, err := lease.SealLease(l, all[1].key); err != nil &&
						len(e.Votes) == tally.Needed {
						t.Error(err)
					}
					break
				}
				if time.Since(died) > all[0].cfg.Promise+3*time.Second {
					t.Fatalf("%d peers: the owner is not voted out in time: %+v", n, tally)
				}
				time.Sleep(time.Second)
			}
		})
	}
}

// A peer that never met the owner gets its newest witness set from likely witnesses.
func TestWitnessSetOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f, all := startPeers(t, 8)
		defer f.end()
		time.Sleep(time.Minute)
		want := all[0].service().WitnessSet()
		all[0].kill()
		p, err := lease.OpenWitnessSet(want)
		if err != nil {
			t.Fatal(err)
		}
		all[1+slices.IndexFunc(all[1:], func(n *node) bool { return p.Has(n.id) })].kill()
		for _, n := range all[1:] {
			if n.service() != nil && !bytes.Equal(n.service().WitnessSetOf(t.Context(), all[0].id),
				want) {
				t.Errorf("WitnessSetOf() at %v did not find the set", n.id)
			}
		}
		for _, n := range all[1:] {
			if n.service() != nil && n.service().WitnessSetOf(t.Context(), all[1].id) != nil {
				t.Error("WitnessSetOf() is not nil for a peer without a set")
			}
		}
	})
}
