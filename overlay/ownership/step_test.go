package ownership_test

import (
	"slices"
	"testing"

	"github.com/libp2p/go-libp2p/core/peer"
	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/ownership"
)

// TestStepAnyEvent gives a unit events in any order, also such as no correct peer causes. It
// must not panic, leave the table, let the epoch fall, or act on a change before it is saved.
func TestStepAnyEvent(t *testing.T) {
	var rules ownership.Rules
	rapid.Check(t, func(rt *rapid.T) {
		u := ownership.Unit{Name: "192.0.2.0/24", Self: member("A")}
		var known []ownership.Record
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			e := anyEvent(t, rt, u, known)
			next, acts := rules.Step(u, e)
			if !ownership.Listed(u.State, e.Kind, next.State) {
				rt.Fatalf("%v by %v to %v is not in the table", u, e.Kind, next)
			}
			if u.Lease() != nil && next.Lease().Epoch < u.Lease().Epoch {
				rt.Fatalf("%v: the epoch fell from %d", e.Kind, u.Lease().Epoch)
			}
			i := slices.IndexFunc(acts, func(a ownership.Action) bool {
				return a.Kind == ownership.Save
			})
			if i > 0 || i < 0 && next.State != u.State {
				rt.Fatalf("%v: %v to %v with Save at %d", e.Kind, u, next, i)
			}
			if u = next; u.Record != nil {
				known = append(known, u.Record)
			}
		}
	})
}

// anyEvent draws an event. Half of the replies fit the proposal under way.
func anyEvent(
	t *testing.T, rt *rapid.T, u ownership.Unit, known []ownership.Record,
) ownership.Event {
	e := ownership.Event{Near: near, Set: near("")[1:]}
	e.Kind = ownership.EventKind(rapid.IntRange(0, int(ownership.Restarted)+1).Draw(rt, "kind"))
	e.Peer = rapid.SampledFrom(append(near(""), ownership.Member{})).Draw(rt, "peer")
	e.Reasons = ownership.Reasons(rapid.IntRange(0, 31).Draw(rt, "reasons"))
	owner := rapid.SampledFrom([]string{"A", "B", "C"}).Draw(rt, "owner")
	kind := ownership.Kind(rapid.IntRange(1, 5).Draw(rt, "lease"))
	if rapid.Bool().Draw(rt, "with lease") {
		e.Lease = lease(t, u.Lease(), kind, owner)
		e.Record = append(slices.Clip(u.Record), certified(e.Lease, u.Record == nil, "B", "C"))
	} else if len(known) > 0 {
		e.Record = rapid.SampledFrom(known).Draw(rt, "record")
	}
	e.Reply = ownership.Reply{Topic: ownership.Topic(rapid.IntRange(0, 4).Draw(rt, "topic")),
		By: e.Peer, Prev: u.Lease().ID(), Ballot: u.Ask.Ballot, Lease: e.Lease,
		Voted: rapid.Bool().Draw(rt, "voted")}
	if rapid.Bool().Draw(rt, "fits") {
		e.Reply.Topic = ownership.Prepare
		if u.Ask.Phase == ownership.Signing {
			e.Reply.Topic = ownership.Sign
		}
		return e
	}
	e.Reply.Refusal = ownership.Refusal(rapid.IntRange(0, 7).Draw(rt, "refusal"))
	e.Reply.Ballot = ownership.Ballot{N: rapid.Uint32Range(0, 9).Draw(rt, "n"), By: "C"}
	e.Reply.Record = e.Record
	return e
}

// TestAnswerKeepsLedger checks that a refusal changes nothing, and that an elector signs one
// lease at a ballot and none below its promise.
func TestAnswerKeepsLedger(t *testing.T) {
	var rules ownership.Rules
	base := lease(t, nil, ownership.Claim, "A")
	rec := ownership.Record{certified(base, true, "A", "B")}
	rapid.Check(t, func(rt *rapid.T) {
		m := ownership.Ledger{Record: rec, Replicas: []peer.ID{"B", "C"}}
		h := ownership.Hearing{Self: member("B"), Now: ownership.LostAfter, Near: near}
		for range 20 {
			from := rapid.SampledFrom(near("")).Draw(rt, "from")
			q := ownership.Request{Unit: base.Unit, Record: rec, From: from,
				Topic: rapid.SampledFrom([]ownership.Topic{ownership.Prepare,
					ownership.Sign}).Draw(rt, "topic"),
				Ballot: ownership.Ballot{N: rapid.Uint32Range(0, 4).Draw(rt, "n"), By: from.ID},
				Lease: lease(t, base, ownership.Takeover,
					rapid.SampledFrom([]string{"A", "B", "C"}).Draw(rt, "owner"))}
			next, re := rules.Answer(m, h, q)
			signed := re.Refusal == ownership.Consented && q.Topic == ownership.Sign
			switch {
			case next.Promised.Less(m.Promised) || next.Signed.Less(m.Signed):
				rt.Fatalf("ballots fell from %v and %v", m.Promised, m.Signed)
			case re.Refusal != ownership.Consented && (next.Signed != m.Signed ||
				next.Promised != m.Promised || next.Lease != m.Lease):
				rt.Fatalf("refusal %d changed the ledger", re.Refusal)
			case signed && m.Lease != nil && m.Signed == q.Ballot && m.Lease.ID() != q.Lease.ID():
				rt.Fatalf("signed two leases at ballot %v", q.Ballot)
			}
			m = next
		}
	})
}
