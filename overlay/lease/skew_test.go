package lease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"peerd/internal/clock"
	"peerd/overlay/record"
	"peerd/overlay/record/recordtest"
)

// skewed is a Registry with a clock that is off.
func skewed(
	t *testing.T, p someone, values record.Values, off time.Duration,
) (r *Registry, now func() time.Time) {
	t.Helper()
	now = func() time.Time { return time.Now().Add(off) }
	cfg := DefaultConfig()
	cfg.Self, cfg.Key, cfg.Values, cfg.Clock = p.id, p.key, values, clock.Of(now)
	r, err := NewRegistry(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return r, now
}

// Peers with clocks that differ by up to Skew agree on who owns a subnet, through claim,
// renewal, handover and takeover, whoever of them is ahead.
func TestSkewedClocks(t *testing.T) {
	t.Parallel()
	for _, off := range [][3]time.Duration{
		{Skew, 0, 0}, {0, Skew, 0}, {0, 0, Skew}, {-Skew, 0, 0}, {0, -Skew, 0}, {0, 0, -Skew},
		{Skew / 2, -Skew / 2, Skew / 2}, {-Skew / 2, Skew / 2, -Skew / 2},
	} {
		t.Run(fmt.Sprint(off), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { agree(t, off) })
		})
	}
}

func agree(t *testing.T, off [3]time.Duration) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dht := recordtest.New(Validator{}, 5)
	a, nowA := skewed(t, alice, dht.Peer(), off[0])
	b, nowB := skewed(t, bob, dht.Peer(), off[1])
	c, nowC := skewed(t, carol, dht.Peer(), off[2])
	all := func(what string, owner someone, epoch uint64) {
		t.Helper()
		for name, r := range map[string]*Registry{"alice": a, "bob": b, "carol": c} {
			if l, _, err := r.Refresh(ctx, subnet4); err != nil || l.Owner != owner.id ||
				l.Epoch != epoch {
				t.Errorf("%s: %s finds %v, epoch %d, %v", what, name, l.Owner, l.Epoch, err)
			}
		}
	}
	beaten := func(what string, r *Registry, l Lease, by someone) {
		t.Helper()
		var beat *BeatenError
		if _, _, err := r.Renew(ctx, l); !errors.As(err, &beat) || beat.By.Owner != by.id {
			t.Errorf("%s: the old owner renews: %v", what, err)
		}
	}

	first, _, err := a.Claim(ctx, subnet4)
	if err != nil {
		t.Fatal(err)
	}
	var beat *BeatenError
	if _, _, err := b.Claim(ctx, subnet4); !errors.As(err, &beat) {
		t.Errorf("claimed twice: %v", err)
	}
	all("claimed", alice, 1)
	time.Sleep(time.Second)
	if first, _, err = a.Renew(ctx, first); err != nil {
		t.Fatal(err)
	}
	all("renewed", alice, 1)

	g, err := first.GrantTo(bob.id, nowA(), alice.key)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := b.Adopt(ctx, first, g, nil)
	if err != nil {
		t.Fatal(err)
	}
	all("handed over", bob, 2)
	beaten("handed over", a, first, bob)

	pl, err := SealWitnessSet(WitnessSet{Owner: bob.id, Seq: 1, Members: ids(folk[2:6]),
		Issued: nowB()}, bob.key)
	if err != nil {
		t.Fatal(err)
	}
	v := Vote{Subnet: subnet4, Epoch: 3, From: bob.id, To: carol.id, SetSeq: 1,
		Ended: second.Digest(), Issued: nowC()}
	if _, _, err := c.TakeOver(ctx, second,
		Takeover{WitnessSet: pl, Votes: votes(t, v, folk[2:6]...)}, nil); err != nil {
		t.Fatal(err)
	}
	all("taken over", carol, 3)
	beaten("taken over", b, second, carol)
}

// A peer with a wrong clock takes its claim for as young as others do: their claims may beat it.
func TestSkewedClaimIsYoung(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		worse, better := alice, bob
		if Better(nowLease(alice), nowLease(bob)) > 0 {
			worse, better = bob, alice
		}
		r, _ := skewed(t, worse, recordtest.New(Validator{}, 5).Peer(), 2*time.Minute)
		own, _, err := r.Claim(t.Context(), subnet4)
		if err != nil {
			t.Fatal(err)
		}
		rival := nowLease(better)
		if !r.Replaces(own, rival, time.Now()) {
			t.Error("a claim made at the same time does not replace its own, want the better one")
		}
		time.Sleep(young + time.Second)
		if r.Replaces(own, rival, time.Now()) {
			t.Error("a claim made at the same time replaces its own when that is old")
		}
	})
}
