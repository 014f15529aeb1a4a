package outbox

import (
	"net/netip"
	"testing"
)

func TestChanges(t *testing.T) {
	t.Parallel()
	c := newChanges()
	subnet := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 0}), 24)
	}
	c.add(subnet(1))
	began := c.last
	c.add(subnet(2))
	for i, want := range map[int]bool{1: false, 2: true, 3: false} {
		if got := c.after(subnet(i), began); got != want {
			t.Errorf("after(%d) = %t, want %t", i, got, want)
		}
	}
	now := c.last
	for i := range maxChanges {
		c.add(subnet(10 + i))
	}
	if !c.after(subnet(1), began) || c.after(subnet(1), now) {
		t.Error("what was forgotten does not count as changed, or what has not changed does")
	}
	if c.add(subnet(1)); c.of.Len() != maxChanges || !c.after(subnet(5), now) {
		t.Errorf("%d changes are remembered, or a forgotten one does not count", c.of.Len())
	}
}
