package witness

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
)

// TestWitnessesOfManyNetworks verifies that a set has as few members of one network as possible,
// that peers which have not been known for long come last, and that a set chosen so stays.
func TestWitnessesOfManyNetworks(t *testing.T) {
	t.Parallel()
	now := time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
	all := ids(sorted(testPeers[1:9]))
	network := func(i int) netip.Prefix {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{198, byte(i), 0, 0}), 16)
	}
	for _, c := range []struct {
		name     string
		networks []int        // of the peers; 0: unknown
		young    map[int]bool // by index
		most     int          // members of one network
		want     []int        // indexes that must be members
	}{
		{"two honest, six of one", []int{1, 1, 1, 2, 1, 1, 3, 1}, nil, 2, []int{3, 6}},
		{"one network", []int{1, 1, 1, 1, 1, 1, 1, 1}, nil, 4, nil},
		{"four networks", []int{1, 1, 2, 2, 3, 3, 4, 4}, nil, 1, nil},
		{"young ones of other networks", []int{1, 1, 1, 1, 2, 3, 4, 5},
			map[int]bool{4: true, 5: true, 6: true, 7: true}, 4, []int{0, 1, 2, 3}},
		{"too few old ones", []int{1, 1, 1, 1, 1, 2, 3, 4},
			map[int]bool{1: true, 2: true, 3: true, 4: true, 5: true, 6: true, 7: true}, 1,
			[]int{0, 5, 6, 7}},
	} {
		cfg := DefaultConfig()
		cfg.Node = &fakeNode{origin: func(id peer.ID) (o Origin) {
			i := slices.Index(all, id)
			if o.Old = !c.young[i]; c.networks[i] > 0 {
				o.Network = network(c.networks[i])
			}
			return o
		}}
		h := newOwnerState(testPeers[0].id, cfg, now, nil)
		got := h.choose(now, all)
		count := map[netip.Prefix]int{}
		for _, id := range got {
			count[h.originOf(id).Network]++
		}
		for p, n := range count {
			if n > c.most {
				t.Errorf("%s: %d members of %v, want at most %d", c.name, n, p, c.most)
			}
		}
		for _, i := range c.want {
			if !slices.Contains(got, all[i]) {
				t.Errorf("%s: peer %d is not a member", c.name, i)
			}
		}
		h.install(now, sealedSet{lease.WitnessSet{Owner: testPeers[0].id, Seq: 1, Members: got},
			nil})
		for _, id := range got {
			h.onAck(now, id, now, ack{Known: 1, Incarnation: 1})
		}
		if again := h.choose(now, all); !slices.Equal(again, got) {
			t.Errorf("%s: chose %v after %v", c.name, again, got)
		}
	}
}
