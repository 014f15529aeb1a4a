package owner

import (
	"net/netip"
	"testing"
	"time"

	"peerd/coords"
	"peerd/coords/assign"
)

// at is a candidate so far from the origin, in ms, with that address.
func at(p someone, ms float64, addr string) assign.Candidate {
	c := assign.Candidate{ID: p.id.String(), At: coords.Coordinate{Vec: []float64{ms, 0, 0}}}
	if addr != "" {
		c.Addr = netip.MustParseAddr(addr)
	}
	return c
}

func TestNominate(t *testing.T) {
	t.Parallel()
	me := at(alice, 0, "192.0.2.1")
	for name, c := range map[string]struct {
		others []assign.Candidate
		prefer []string
		not    map[string]bool
		any    bool
		n      int
		want   []someone
	}{
		"no candidates": {n: 1},
		"the nearest": {others: []assign.Candidate{at(bob, 200, "198.51.100.1"),
			at(carol, 10, "203.0.113.1")}, n: 1, want: []someone{carol}},
		"not of the own network": {others: []assign.Candidate{at(bob, 1, "192.0.9.1"),
			at(carol, 300, "203.0.113.1")}, n: 1, want: []someone{carol}},
		"the own network if need be": {others: []assign.Candidate{at(bob, 1, "192.0.9.1")},
			n: 2, want: []someone{bob}},
		"other networks first": {others: []assign.Candidate{at(bob, 1, "192.0.9.1"),
			at(carol, 300, "203.0.113.1")}, n: 2, want: []someone{carol, bob}},
		"a successor may be of any": {others: []assign.Candidate{at(bob, 1, "192.0.9.1"),
			at(carol, 300, "203.0.113.1")}, any: true, n: 1, want: []someone{bob}},
		"unknown addresses count": {others: []assign.Candidate{at(bob, 1, ""),
			at(carol, 300, "203.0.113.1")}, n: 1, want: []someone{bob}},
		"who has it already": {others: []assign.Candidate{at(bob, 500, "198.51.100.1"),
			at(carol, 10, "203.0.113.1")}, prefer: []string{bob.id.String()}, n: 1,
			want: []someone{bob}},
		"not who is out of the question": {others: []assign.Candidate{at(bob, 10, "198.51.100.1")},
			not: map[string]bool{bob.id.String(): true}, n: 1},
	} {
		q := nomination{subnet: subnetA, self: alice.id.String(), prefer: c.prefer, not: c.not,
			anywhere: c.any}
		got := q.choose(append([]assign.Candidate{me}, c.others...), c.n)
		ok := len(got) == len(c.want)
		for i := range got {
			ok = ok && got[i] == c.want[i].id
		}
		if !ok {
			t.Errorf("%s: chose %v", name, got)
		}
	}
}

// holderTable is Holders.
type holderTable map[string]string

func (h holderTable) Holder(a netip.Addr) (string, bool) {
	who, ok := h[a.String()]
	return who, ok
}

// Who holds the addresses counts, where that is known, and not what they look like.
func TestNominateByHolder(t *testing.T) {
	t.Parallel()
	all := []assign.Candidate{at(alice, 0, "192.0.2.1"), at(bob, 1, "192.0.9.1"),
		at(carol, 300, "203.0.113.1")}
	for name, c := range map[string]struct {
		h    holderTable
		want someone
	}{
		"nothing known": {nil, carol},
		"another holder, alike": {holderTable{"192.0.2.1": "a", "192.0.9.1": "b",
			"203.0.113.1": "c"}, bob},
		"one holder, not alike": {holderTable{"192.0.2.1": "a", "192.0.9.1": "b",
			"203.0.113.1": "a"}, bob},
		"the holder of one is known": {holderTable{"192.0.9.1": "b", "203.0.113.1": "c"}, carol},
	} {
		q := nomination{subnet: subnetA, self: alice.id.String(), holders: c.h}
		if got := q.choose(all, 1); got[0] != c.want.id {
			t.Errorf("%s: chose %v", name, got)
		}
	}
}

// Peers of one place share the subnets of one owner.
func TestNominateSpreads(t *testing.T) {
	t.Parallel()
	all := []assign.Candidate{at(alice, 0, "192.0.2.1"), at(bob, 10, "198.51.100.1"),
		at(carol, 12, "203.0.113.1")}
	n := map[string]int{}
	for i := range 200 {
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte{100, 1, byte(i), 0}), 24)
		q := nomination{subnet: p, self: alice.id.String()}
		ids := q.choose(all, 1)
		n[ids[0].String()]++
		if again := q.choose(all, 1); again[0] != ids[0] {
			t.Fatal("chosen otherwise the second time")
		}
	}
	if n[bob.id.String()] < 60 || n[carol.id.String()] < 60 {
		t.Errorf("not spread: %v", n)
	}
}

// A prediction of the subnet's times counts, not the way to its owner.
func TestNominateByProxy(t *testing.T) {
	t.Parallel()
	all := []assign.Candidate{at(alice, 0, "192.0.2.1"), at(bob, 10, "198.51.100.1"),
		at(carol, 400, "203.0.113.1")}
	q := nomination{subnet: subnetA, self: alice.id.String(),
		proxy: &coords.Proxy{At: coords.Coordinate{Vec: []float64{400, 0, 0}}, Scale: 1}}
	if ids := q.choose(all, 1); ids[0] != carol.id {
		t.Errorf("chose %v", ids)
	}
	all[2].Wait = time.Second // busy
	if ids := q.choose(all, 1); ids[0] != bob.id {
		t.Errorf("chose %v although it is busy", ids)
	}
}
