package lease

import (
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// Of claims by peers that were apart, that of a peer that joined meanwhile loses: who was away
// takes it for a stranger. If it has receipts, those who signed them may be known there.
func TestJoinedWhileAway(t *testing.T) {
	t.Parallel()
	mine, rival := first(alice), first(bob)
	if Better(rival, mine) > 0 { // by hash, mine stands
		mine, rival = rival, mine
	}
	signed := func(l Lease) Lease {
		l.Receipts = receiptsBy(t, l, elders[:minReceipts]...)
		return l
	}
	given := func(l Lease) Lease {
		by := alice
		if l.Owner == bob.id {
			by = bob
		}
		return passedOn(t, l, by, carol)
	}
	none, nine, back := []peer.ID{}, idsOf(elders[:9]), []peer.ID{rival.Owner}
	for name, c := range map[string]struct {
		known, l Lease
		joined   peer.ID
		apart    []peer.ID
		want     bool
	}{
		"by hash":                    {mine, rival, "", back, false},
		"joined":                     {mine, rival, mine.Owner, back, true},
		"joined, and gave it":        {given(mine), rival, mine.Owner, back, true},
		"the other one joined":       {mine, rival, rival.Owner, back, false},
		"joined, and not apart":      {mine, rival, mine.Owner, none, false},
		"joined, with receipts":      {signed(mine), rival, mine.Owner, back, false},
		"joined, receipts of both":   {signed(mine), signed(rival), mine.Owner, back, false},
		"a stranger":                 {rival, mine, "", none, false},
		"a stranger with receipts":   {rival, signed(mine), "", nine, true},
		"receipts of strangers":      {rival, signed(mine), "", nine[:minReceipts-1], false},
		"receipts on both sides":     {signed(rival), signed(mine), "", nine, true},
		"receipts on the other side": {signed(rival), mine, "", nine, false},
	} {
		j := NewJudge(at(noon), &away{apart: c.apart, joined: c.joined})
		j.See(c.known, noon.Add(-10*time.Minute))
		if got := j.Replaces(c.known, c.l); got != c.want {
			t.Errorf("%s: Replaces() = %v, want %v", name, got, c.want)
		}
	}
}

// away is what a peer knows after others were away: which they were, and who joined meanwhile.
type away struct {
	contacts
	apart  []peer.ID
	joined peer.ID
}

func (a *away) Apart(p peer.ID, _ time.Time) bool { return slices.Contains(a.apart, p) }
func (a *away) Joined(p, _ peer.ID) bool          { return p == a.joined }

// A peer that was apart is believed what it did under a lease that this peer's has ended, but not
// under a claim that it can have made up since.
func TestActedApart(t *testing.T) {
	t.Parallel()
	mine, other := first(alice), first(bob)
	signed := mine
	signed.Receipts = receiptsBy(t, mine, elders[:minReceipts]...)
	both := other
	both.Receipts = receiptsBy(t, other, elders[:minReceipts]...)
	elsewhere := other
	elsewhere.Subnet = subnet6
	alices, bobs, carols := []peer.ID{alice.id}, []peer.ID{bob.id}, []peer.ID{carol.id}
	for name, c := range map[string]struct {
		known, l Lease
		apart    []peer.ID
		want     bool
	}{
		"a claim of both":              {mine, other, bobs, true},
		"a claim that was given on":    {mine, passedOn(t, other, bob, carol), carols, true},
		"by a peer that was here":      {mine, other, nil, false},
		"with receipts for this one":   {signed, other, bobs, false},
		"with receipts for both":       {signed, both, bobs, true},
		"with receipts for that one":   {mine, both, bobs, true},
		"before a takeover":            {taken(t), mine, alices, true},
		"before one, and was not away": {taken(t), mine, nil, false},
		"before it gave the subnet on": {passedOn(t, other, bob, alice), other, bobs, false},
		"after the known one":          {other, passedOn(t, other, bob, carol), carols, false},
		"of another subnet":            {mine, elsewhere, bobs, false},
		"the same lease":               {mine, mine, alices, false},
	} {
		j := NewJudge(at(noon), &away{apart: c.apart})
		j.See(c.known, noon.Add(-10*time.Minute))
		if got := j.ActedApart(c.known, c.l); got != c.want {
			t.Errorf("%s: ActedApart() = %v, want %v", name, got, c.want)
		}
	}
	if NewJudge(at(noon), nil).ActedApart(mine, other) {
		t.Error("a peer that knows of no absence believes it")
	}
}
