package shadow

import (
	"net/netip"
	"slices"
	"testing"
)

func TestAsk(t *testing.T) {
	ha, hb := hostPair(t)
	a, b := join(t, ha, open(t, ""), nil), join(t, hb, open(t, ""), nil)
	own(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	eventually(t, "it is counted on", func() bool { h, _ := b.Copy(subnet); return !h.Counted.IsZero() })
	h, _ := b.Copy(subnet)
	got, err := a.Ask(t.Context(), hb.ID(), []netip.Prefix{other, subnet, subnet})
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if c := got[0]; c.Subnet != subnet || c.Owner != ha.ID() || c.Epoch != 1 || !c.Complete || c.Pos != h.Pos || c.Ago < 0 {
		t.Errorf("%+v", c)
	}
	b.k.mu.Lock()
	if !slices.Contains(b.k.wanted, subnet) || slices.Contains(b.k.wanted, other) {
		t.Errorf("the keeper is told of %v", b.k.wanted)
	}
	b.k.mu.Unlock()
	if got, err := b.Ask(t.Context(), ha.ID(), []netip.Prefix{subnet}); err != nil || len(got) != 0 {
		t.Errorf("the owner has copies: %+v, %v", got, err)
	}
	if err := b.Remind(t.Context(), ha.ID(), []netip.Prefix{subnet, other}); err != nil {
		t.Error(err)
	}
	a.k.mu.Lock()
	if !slices.Equal(a.k.reminded, []netip.Prefix{subnet, other}) || len(a.k.wanted) > 0 {
		t.Errorf("the owner is reminded of %v, and asked for %v", a.k.reminded, a.k.wanted)
	}
	a.k.mu.Unlock()
	many := make([]netip.Prefix, MaxAsked+1)
	for i := range many {
		many[i] = subnet
	}
	if _, err := a.Ask(t.Context(), hb.ID(), many); err == nil {
		t.Error("too many are answered")
	}
	for range 10 * askRate.AtOnce {
		if _, err = a.Ask(t.Context(), hb.ID(), []netip.Prefix{subnet}); err != nil {
			return
		}
	}
	t.Error("anybody may ask for ever")
}
