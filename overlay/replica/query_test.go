package replica

import (
	"net/netip"
	"slices"
	"testing"
)

func TestQueryCopies(t *testing.T) {
	t.Parallel()
	ha, hb := hostPair(t)
	a, b := startMember(t, ha, open(t, ""), nil), startMember(t, hb, open(t, ""), nil)
	addOwned(t, a.db, subnet)
	follow(t, a, subnet, b)
	flush(t, a, subnet)
	eventually(t, "the copy is confirmed", func() bool {
		h, _ := b.Copy(subnet)
		return !h.Confirmed.IsZero()
	})
	h, _ := b.Copy(subnet)
	got, err := a.QueryCopies(t.Context(), hb.ID(), []netip.Prefix{other, subnet, subnet})
	if err != nil || len(got) != 1 {
		t.Fatalf("QueryCopies() = %+v, %v; want one copy", got, err)
	}
	if c := got[0]; c.Subnet != subnet || c.Owner != ha.ID() || c.Epoch != 1 || !c.Complete ||
		c.Pos != h.Pos || c.SinceConfirmed < 0 {
		t.Errorf("QueryCopies() = %+v, want the copy %+v", c, h)
	}
	b.policy.mu.Lock()
	if !slices.Contains(b.policy.requested, subnet) || slices.Contains(b.policy.requested, other) {
		t.Errorf("the Policy was told of %v, want %v", b.policy.requested, subnet)
	}
	b.policy.mu.Unlock()
	if got, err := b.QueryCopies(t.Context(), ha.ID(), []netip.Prefix{subnet}); err != nil ||
		len(got) != 0 {
		t.Errorf("QueryCopies() = %+v, %v at the owner, want none", got, err)
	}
	if err := b.ReportCopies(t.Context(), ha.ID(), []netip.Prefix{subnet, other}); err != nil {
		t.Error(err)
	}
	a.policy.mu.Lock()
	if !slices.Equal(a.policy.reported, []netip.Prefix{subnet, other}) ||
		len(a.policy.requested) > 0 {
		t.Errorf("the owner was told of reports %v and requests %v, want both subnets and none",
			a.policy.reported, a.policy.requested)
	}
	a.policy.mu.Unlock()
	many := make([]netip.Prefix, MaxQuery+1)
	for i := range many {
		many[i] = subnet
	}
	if _, err := a.QueryCopies(t.Context(), hb.ID(), many); err == nil {
		t.Error("QueryCopies() = nil for too many subnets, want an error")
	}
	for range 10 * queryRate.Burst {
		if _, err = a.QueryCopies(t.Context(), hb.ID(), []netip.Prefix{subnet}); err != nil {
			return
		}
	}
	t.Errorf("%d queries at once were answered, want an error", 10*queryRate.Burst)
}
