package lease

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/clock"
	"peerd/overlay/overlaytest"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// elders are record holders.
var elders = overlaytest.Identities(70, maxReceipts, someoneOf)

func idsOf(all []someone) (ids []peer.ID) {
	for _, s := range all {
		ids = append(ids, s.id)
	}
	return ids
}

// receiptsBy returns receipts for a claim.
func receiptsBy(t testing.TB, l Lease, by ...someone) (all []byte) {
	t.Helper()
	for _, s := range by {
		var err error
		if all, err = AppendReceipt(all, l, s.key); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A lease carries receipts to its successors while their records reach back to the claim. What is
// shown without them has none, and a reader that does not know them skips them.
func TestReceiptsTravel(t *testing.T) {
	t.Parallel()
	l := first(alice)
	l.Receipts = receiptsBy(t, l, elders...)
	sealed := seal(t, l, alice)
	got, err := OpenLease(sealed)
	if err != nil || !bytes.Equal(got.Receipts, l.Receipts) || len(got.signers()) != maxReceipts {
		t.Fatalf("opened with %d bytes of receipts, %v", len(got.Receipts), err)
	}
	s, err := split(sealed)
	if err != nil {
		t.Fatal(err)
	}
	var b leaseBody
	if _, err := leaseKind.Open(s.Envelope, &b); err != nil || b.Owner != alice.id {
		t.Errorf("an earlier version reads %v, %v", b.Owner, err)
	}
	for name, shorten := range map[string]func([]byte) ([]byte, error){
		"Shorten": Shorten,
		"LastOf": func(b []byte) ([]byte, error) {
			last, err := LastOf(b)
			return outer(t, sealedLease{Envelope: last}), err
		},
	} {
		short, err := shorten(sealed)
		if err != nil {
			t.Fatal(err)
		}
		if bare, err := OpenLease(short); err != nil || len(bare.Receipts) > 0 ||
			bare.Digest() != l.Digest() {
			t.Errorf("%s: %d bytes of receipts, %v", name, len(bare.Receipts), err)
		}
	}
	last, err := Takeover{Last: sealed}.normal()
	if err != nil {
		t.Fatal(err)
	}
	if bare, receipts, err := record.Attached(last.Last); err != nil || len(bare) == 0 ||
		len(receipts) > 0 {
		t.Errorf("a takeover shows %d bytes of receipts, %v", len(receipts), err)
	}
	next := l
	for i, p := range []someone{bob, alice, bob, alice, bob} {
		next = passedOn(t, next, []someone{alice, bob}[i%2], p)
		if got := len(next.Receipts) > 0; got != (i < MaxLinks) {
			t.Errorf("%d steps later: receipts %v", i+1, got)
		}
		if len(next.Receipts) > 0 && len(next.signers()) != maxReceipts {
			t.Errorf("%d steps later they do not fit", i+1)
		}
	}
	for _, bad := range [][]byte{{1}, make([]byte, receiptSize-1),
		make([]byte, (maxReceipts+1)*receiptSize)} {
		s.Envelope, _, _ = record.Attached(s.Envelope)
		s.Envelope = record.Attach(s.Envelope, bad)
		if _, err := OpenLease(outer(t, s)); err == nil {
			t.Errorf("opened with %d bytes of receipts", len(bad))
		}
	}
}

// Only valid receipts of different keys count, and not the owner's.
func TestSigners(t *testing.T) {
	t.Parallel()
	l, other := first(alice), first(bob)
	for name, c := range map[string]struct {
		receipts []byte
		want     int
	}{
		"enough":       {receiptsBy(t, l, elders[:minReceipts]...), minReceipts},
		"too few":      {receiptsBy(t, l, elders[:minReceipts-1]...), 0},
		"one twice":    {receiptsBy(t, l, append(elders[:6:6], elders[0])...), 0},
		"of the owner": {receiptsBy(t, l, append(elders[:6:6], alice)...), 0},
		"for another":  {receiptsBy(t, other, elders...), 0},
		"one is invalid": {append(receiptsBy(t, l, elders[:6]...),
			make([]byte, receiptSize)...), 0},
	} {
		l.Receipts = c.receipts
		if got := l.signers(); len(got) != c.want {
			t.Errorf("%s: %d signers, want %d", name, len(got), c.want)
		}
	}
}

// Receipts decide between claims that were made at once, and those of old members between claims
// that both have some; not against what has been known for long.
func TestJudgeReceipts(t *testing.T) {
	t.Parallel()
	known, rival := first(alice), first(carol)
	if Better(rival, known) < 0 {
		known, rival = rival, known
	}
	owner, thief := known.Owner, rival.Owner
	forgers := overlaytest.Identities(90, maxReceipts, someoneOf)
	with := func(l Lease, by []someone) Lease {
		l.Receipts = receiptsBy(t, l, by...)
		return l
	}
	certified, forged := with(known, elders[:9]), with(rival, forgers)
	for name, c := range map[string]struct {
		known, l Lease
		seen     time.Duration
		apart    bool
		nearest  []someone
		want     bool
	}{
		"no receipts":                 {known, rival, 0, false, elders, true},
		"receipts":                    {certified, rival, 0, false, elders, false},
		"receipts, to all alike":      {certified, rival, 0, false, nil, false},
		"they come later":             {rival, certified, 0, false, elders, true},
		"they come later, to all":     {rival, certified, 0, false, nil, true},
		"too late":                    {rival, certified, time.Hour, false, elders, false},
		"forged ones":                 {certified, forged, 0, false, elders, false},
		"forged ones were there":      {forged, certified, 0, false, elders, true},
		"forged, holders not known":   {certified, forged, 0, false, nil, true},
		"forged, few are known":       {certified, forged, 0, false, elders[:6], true},
		"apart":                       {certified, rival, time.Hour, true, elders, false},
		"apart, and both have some":   {certified, forged, time.Hour, true, elders, true},
		"the same claim, with more":   {known, certified, 0, false, elders, true},
		"the same claim, without any": {certified, known, 0, false, elders, false},
	} {
		for _, l := range []*Lease{&c.known, &c.l} {
			if c.seen > 0 && l.Owner == c.known.Owner {
				l.Issued = noon.Add(-c.seen)
			}
		}
		j := NewJudge(at(noon), &contacts{apart: c.apart, nearest: idsOf(c.nearest)})
		j.See(c.known, noon.Add(-c.seen))
		if got := j.Replaces(c.known, c.l); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		j.See(c.l, noon)
		if c.seen == 0 && c.known.Digest() != c.l.Digest() && j.better(c.l, c.known) != c.want {
			t.Errorf("%s: a record holder decides otherwise", name)
		}
	}
	if owner == thief {
		t.Fatal("one owner only")
	}
}

// signing gives receipts of some of the elders.
type signing struct {
	t     *testing.T
	by    []someone
	asked int
	sent  []byte
}

func (s *signing) Receipts(
	_ context.Context, _ string, val []byte, from []peer.ID,
) map[peer.ID][]byte {
	s.asked, s.sent = len(from), val
	text, all := Validator{}.Statement(val), map[peer.ID][]byte{}
	for _, e := range s.by {
		sig, err := e.key.Sign(text)
		if err != nil {
			s.t.Error(err)
		}
		all[e.id] = sig
	}
	all[elders[maxReceipts-1].id] = make([]byte, 64) // no signature
	return all
}

// A member signs for a claim only if it finds itself among the nearest old members, or knows none.
func TestSigns(t *testing.T) {
	t.Parallel()
	sealed := seal(t, first(alice), alice)
	for name, c := range map[string]struct {
		judge *Judge
		self  peer.ID
		want  bool
	}{
		"one of the nearest": {NewJudge(at(noon), &contacts{nearest: idsOf(elders)}), elders[3].id,
			true},
		"another":    {NewJudge(at(noon), &contacts{nearest: idsOf(elders)}), bob.id, false},
		"knows none": {NewJudge(at(noon), &contacts{}), bob.id, true},
		"no judge":   {nil, bob.id, true},
	} {
		if got := (Validator{Judge: c.judge}).Signs(sealed, c.self); got != c.want {
			t.Errorf("%s: signs %v, want %v", name, got, c.want)
		}
	}
	if (Validator{}).Signs(sealed[1:], bob.id) {
		t.Error("signs for what is no lease")
	}
}

// A claim gets its receipts if three quarters of the holders sign, keeps them when it is renewed,
// and loses them after an hour.
func TestClaimCollectsReceipts(t *testing.T) {
	t.Parallel()
	for signed, want := range map[int]int{9: 9, 11: 11, 8: 0} {
		synctest.Test(t, func(t *testing.T) {
			holders := &signing{t: t, by: elders[:signed]}
			cfg := DefaultConfig()
			cfg.Self, cfg.Key, cfg.Holders = alice.id, alice.key, holders
			cfg.Values = recordtest.New(Validator{}, 3).Peer()
			cfg.Judge = NewJudge(clock.Clock{}, &contacts{nearest: idsOf(elders)})
			r := openWith(t, cfg)
			l, sealed, err := r.Claim(t.Context(), subnet4)
			if err != nil || len(l.signers()) != want || holders.asked != maxReceipts {
				t.Fatalf("%d signed: %d receipts of %d asked, %v, want %d", signed,
					len(l.signers()), holders.asked, err, want)
			}
			first, err := OpenLease(holders.sent)
			if err != nil || first.Digest() != l.Digest() || !l.Issued.After(first.Issued) {
				t.Errorf("what was signed does not lead to the lease: %v", err)
			}
			if got, err := OpenLease(sealed); err != nil || !bytes.Equal(got.Receipts, l.Receipts) {
				t.Errorf("the written lease has other receipts: %v", err)
			}
			if l, _, err = r.Renew(t.Context(), l); err != nil || len(l.signers()) != want {
				t.Errorf("renewed with %d receipts, %v", len(l.signers()), err)
			}
			time.Sleep(receiptsFor + time.Minute)
			if l, _, err = r.Renew(t.Context(), l); err != nil || len(l.Receipts) > 0 {
				t.Errorf("renewed after an hour with %d receipts, %v", len(l.signers()), err)
			}
		})
	}
}
