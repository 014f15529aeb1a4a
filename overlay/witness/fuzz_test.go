package witness

import (
	"net/netip"
	"testing"
	"time"

	"peerd/overlay/lease"
	"peerd/overlay/wire"
)

func FuzzMessages(f *testing.F) {
	_, sealed := newSealedSet(f, 1, testPeers[1:5]...)
	for _, v := range []any{
		request{Heartbeat: &heartbeat{Set: sealed, Incarnation: 1, LastNotice: 2}},
		request{Vote: &voteRequest{sealed, []proposal{{Subnet: subnet, Epoch: 2}}, 3, true}},
		request{SetQuery: &setQuery{testPeers[0].id}}, reply{Set: &setReply{sealed}},
		reply{Ack: &ack{Known: 1, Incarnation: 2,
			Notices: []notice{{1, subnet, 2, testPeers[2].id}}}},
		reply{Vote: &voteReply{Status: statusVoted, Votes: [][]byte{{1}}, Set: sealed}},
	} {
		b, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	cfg := DefaultConfig()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	p, _ := lease.OpenWitnessSet(sealed)
	f.Fuzz(func(t *testing.T, b []byte) {
		var r reply
		if wire.Unmarshal(b, &r) == nil {
			if r.Ack != nil && r.Ack.check() == nil {
				h := newOwnerState(testPeers[0].id, cfg, now, []sealedSet{{p, sealed}})
				h.onAck(now, testPeers[1].id, now, *r.Ack)
				if ok, _ := h.quorumLease(now); ok {
					t.Fatal("one answer is enough")
				}
			}
			if r.Vote != nil {
				asked := voteRequest{sealed, []proposal{{Subnet: subnet, Epoch: 2}}, 3, false}
				tally := newTally(p, asked)
				_ = tally.count(p, testPeers[5].id, testPeers[1].id, asked, *r.Vote)
			}
		}
		var q request
		if wire.Unmarshal(b, &q) != nil {
			return
		}
		g := newWitnessState(testPeers[1].id, cfg, now, 7, false)
		if q.Heartbeat != nil {
			_, _ = g.onHeartbeat(now, testPeers[0].id, netip.Prefix{}, *q.Heartbeat)
		}
		if q.Vote != nil && checkProposals(q.Vote.Proposals) == nil {
			if p, err := lease.OpenWitnessSet(q.Vote.Set); err == nil {
				v, yes, _ := g.vote(now.Add(time.Hour), testPeers[6].id, p, q.Vote.Set,
					q.Vote.Proposals, q.Vote.Attempt)
				g.release(testPeers[6].id, p.Owner, q.Vote.Proposals, q.Vote.Attempt)
				if v == statusVoted && len(yes) != len(q.Vote.Proposals) {
					t.Fatal("another number of votes")
				}
			}
		}
	})
}
