package peers_test

import (
	"flag"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	ma "github.com/multiformats/go-multiaddr"

	"peerd/overlay"
	"peerd/overlay/overlaytest"
	"peerd/overlay/peers"
)

var mergeSize = flag.Int("merge-size", 5, "number of peers in each network of TestNetworksMerge")

// Two separate networks become one after a single connection between them.
func TestNetworksMerge(t *testing.T) {
	n := *mergeSize
	var members []*member
	for i := range 2 * n {
		var o options
		if i%n > 0 {
			o.boot = members[i/n*n]
		}
		m, _ := start(t, int64(i+1), testNetwork, o)
		members = append(members, m)
	}
	eventually(t, patience, "both networks are complete", func() bool {
		return complete(members[:n])() && complete(members[n:])()
	})
	connect(t, members[1], members[n+2])
	eventually(t, patience, "the merged network is complete", complete(members))
	for i, m := range members {
		foreign := 0
		for k, o := range members {
			if k/n != i/n && m.net.DHT.RoutingTable().Find(o.net.Self()) != "" {
				foreign++
			}
		}
		if want := min(n, 3); foreign < want {
			t.Errorf("member %d has %d peers of the other network in its routing table, want >= %d",
				i, foreign, want)
		}
	}
}

// A peer that restarts after a long time knows many peers that are gone and one that is
// present. The others know it by an address it has left.
func TestRejoinByStalePeers(t *testing.T) {
	t.Parallel()
	first, _ := start(t, 1, testNetwork, options{})
	second, _ := start(t, 2, testNetwork, options{boot: first})
	third, stop := start(t, 3, testNetwork, options{boot: first})
	members := []*member{first, second, third}
	eventually(t, patience, "the network is complete", complete(members))
	old := third.net.Host.Addrs()[0]
	stop()
	eventually(t, time.Minute, "the stopped peer is not alive",
		all(members[:2], func(m *member) bool { return m.peers.Directory().Len() == 1 }))

	third, _ = start(t, 3, testNetwork, options{overlay: func(c *overlay.Config) {
		for i := range int64(99) {
			_, id := overlaytest.Identity(1000 + i)
			c.Known = append(c.Known, peer.AddrInfo{ID: id, Addrs: []ma.Multiaddr{old}})
		}
		present := second.info()
		present.Addrs = append([]ma.Multiaddr{old}, present.Addrs...)
		c.Known = append(c.Known, present)
	}})
	members[2] = third
	eventually(t, patience, "all know the restarted peer's new address", func() bool {
		b, ok := first.peers.Directory().Get(third.net.Self())
		return ok && len(b.Addrs) > 0 && b.Addrs[0] == third.net.Host.Addrs()[0].String() &&
			complete(members)()
	})
}

// A peer that starts while a member is away is told of it by those that it meets.
func TestToldWhoIsAway(t *testing.T) {
	t.Parallel()
	first, _ := start(t, 1, testNetwork, options{})
	second, _ := start(t, 2, testNetwork, options{boot: first})
	away, stop := start(t, 3, testNetwork, options{boot: first})
	members := []*member{first, second, away}
	eventually(t, patience, "the network is complete", complete(members))
	stop()
	eventually(t, time.Minute, "the stopped peer is not alive",
		all(members[:2], func(m *member) bool { return m.peers.Directory().Len() == 1 }))
	if gone, _ := second.peers.Absent(away.net.Self()); gone {
		t.Error("who was there before was told")
	}
	for seed := int64(4); ; seed++ { // a busy machine may stand still for a minute
		joined, _ := start(t, seed, testNetwork, options{boot: first})
		began, told := time.Now(), false
		eventually(t, patience, "the new peer knows who is away, or asks no more", func() bool {
			told, _ = joined.peers.Absent(away.net.Self())
			return told || time.Since(began) > peers.JoiningFor
		})
		if told {
			return
		}
		if seed == 9 {
			t.Fatal("six new peers were not told who is away")
		}
	}
}
