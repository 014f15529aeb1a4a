package ownermap

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "peerd/internal/rapidtest"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
)

var noon = time.Date(2031, 5, 6, 12, 0, 0, 0, time.UTC)

// Whatever the order in which leases are added, by gossip or as own leases, the best of each
// subnet remains, and own subnets remain own ones.
func TestTableKeepsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := newTable(100)
		best, own := map[netip.Prefix]lease.Lease{}, map[netip.Prefix]bool{}
		for range rapid.IntRange(1, 40).Draw(t, "n") {
			who := testPeers[rapid.IntRange(0, 3).Draw(t, "who")]
			l := owned(who, subnet(rapid.IntRange(0, 5).Draw(t, "subnet")),
				noon.Add(time.Duration(rapid.IntRange(0, 9).Draw(t, "at"))*time.Second), nil)
			l.Epoch = uint64(rapid.IntRange(1, 3).Draw(t, "epoch"))
			own[l.Subnet] = own[l.Subnet] || who == alice
			old, ok := best[l.Subnet]
			want := !ok || lease.Better(l, old) > 0
			if got := tab.put(newEntry(l), who == alice, noon, 0); got != want {
				t.Fatalf("put = %v, want the opposite", got)
			}
			if want {
				best[l.Subnet] = l
			}
		}
		if tab.size() != len(best) || tab.others.Len()+len(tab.own) != len(best) {
			t.Fatalf("size = %d, %d of others and %d own, want %d",
				tab.size(), tab.others.Len(), len(tab.own), len(best))
		}
		var last netip.Prefix
		for d := range (view{tab.current.Load()}).Within(netip.MustParsePrefix("0.0.0.0/0")) {
			l := best[d.Subnet]
			if d.Owner != l.Owner.String() || last.IsValid() &&
				d.Subnet.Addr().Compare(last.Addr()) <= 0 ||
				tab.own[d.Subnet] != own[d.Subnet] {
				t.Fatalf("Within yields %+v after %v, want %+v", d, last, l)
			}
			last = d.Subnet
		}
	})
}

// A full table evicts the subnets announced least recently, but never own ones.
func TestTableIsBounded(t *testing.T) {
	tab := newTable(3)
	put := func(p overlaytest.Peer, n int, at time.Duration) {
		tab.put(newEntry(owned(p, subnet(n), noon.Add(at), nil)), p == alice, noon.Add(at),
			time.Minute)
	}
	for n := range 5 {
		put(alice, 100+n, 0)
	}
	for n := range 3 {
		put(bob, n, time.Duration(n)*time.Second)
	}
	put(bob, 0, 2*time.Minute) // announced again
	put(bob, 3, 3*time.Minute) // evicts 1
	known := func() (ns []int) {
		for n := range 200 {
			if _, ok := tab.get(subnet(n)); ok {
				ns = append(ns, n)
			}
		}
		return ns
	}
	if got, want := known(), []int{0, 2, 3, 100, 101, 102, 103, 104}; !slices.Equal(got, want) {
		t.Errorf("subnets %v, want %v", got, want)
	}
	tab.disown(subnet(100), noon.Add(4*time.Minute)) // evicts 2
	if got, want := known(), []int{0, 3, 100, 101, 102, 103, 104}; !slices.Equal(got, want) {
		t.Errorf("subnets %v, want %v", got, want)
	}
	put(alice, 100, 0) // own again, with the same lease
	put(bob, 4, 5*time.Minute)
	put(bob, 5, 5*time.Minute)
	put(bob, 6, 5*time.Minute)
	if got, want := known(), []int{4, 5, 6, 100, 101, 102, 103, 104}; !slices.Equal(got, want) {
		t.Errorf("subnets %v, want %v", got, want)
	}
	high, low := owned(bob, subnet(4), noon, nil), owned(carol, subnet(4), noon.Add(lease.Grace),
		nil)
	high.Epoch = 3
	tab.put(newEntry(high), false, noon, 0)
	if tab.put(newEntry(low), false, noon.Add(lease.Grace), 0) || !tab.put(newEntry(low), false,
		noon.Add(2*lease.Grace), 0) {
		t.Error("put of a lower epoch: want false within the grace period and true after it")
	}
	tab.expire(noon.Add(retention))
	if got, want := known(), []int{4, 5, 6, 100, 101, 102, 103, 104}; !slices.Equal(got, want) {
		t.Errorf("subnets %v, want %v", got, want)
	}
	tab.expire(noon.Add(retention + 3*lease.Grace))
	if got, want := known(), []int{100, 101, 102, 103, 104}; !slices.Equal(got, want) {
		t.Errorf("subnets %v, want %v", got, want)
	}
}

// A table does not keep what proves a lease.
func TestEntryIsSmall(t *testing.T) {
	l := granted(t, bob, carol, subnet(1), noon)
	l.Receipts = make([]byte, 1000)
	e := newEntry(l)
	if k := e.lease; k.Grant != nil || k.Links != nil || k.Receipts != nil {
		t.Errorf("newEntry keeps a grant of %d bytes, %d links and receipts of %d bytes",
			len(k.Grant), len(k.Links), len(k.Receipts))
	}
	if e.lease.Owner != carol.ID || e.lease.Epoch != 2 {
		t.Errorf("newEntry made %+v of %+v", e.lease, l)
	}
}

func TestWithin(t *testing.T) {
	tab := newTable(100)
	six := netip.MustParsePrefix("2001:db8:7::/48")
	for _, p := range []netip.Prefix{subnet(9), subnet(1), subnet(300), six} {
		tab.put(newEntry(owned(bob, p, noon, nil)), false, noon, 0)
	}
	v := view{tab.current.Load()}
	for _, c := range []struct {
		p    netip.Prefix
		want []netip.Prefix
	}{
		{netip.Prefix{}, nil},
		{netip.MustParsePrefix("0.0.0.0/0"), []netip.Prefix{subnet(1), subnet(9), subnet(300)}},
		{netip.MustParsePrefix("11.0.9.77/16"), []netip.Prefix{subnet(1), subnet(9)}},
		{subnet(9), []netip.Prefix{subnet(9)}},
		{netip.MustParsePrefix("11.0.9.0/25"), nil},
		{netip.MustParsePrefix("2001:db8::/32"), []netip.Prefix{six}},
	} {
		var got []netip.Prefix
		for d := range v.Within(c.p) {
			got = append(got, d.Subnet)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("Within(%v) = %v, want %v", c.p, got, c.want)
		}
	}
	for range v.Within(netip.MustParsePrefix("0.0.0.0/0")) { // callers may stop early
		break
	}
}

func BenchmarkPut(b *testing.B) {
	tab := newTable(100_000)
	es := make([]*entry, 200_000)
	for i := range es {
		es[i] = newEntry(owned(bob, subnet(i*7), noon, somewhere(1)))
	}
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		tab.put(es[i%len(es)], false, noon, 0)
	}
}
