package ownermap

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"go.uber.org/goleak"

	"peerd/coords"
	"peerd/coords/assign"
	"peerd/overlay/lease"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var until = overlaytest.Until

// Peers with the same IDs in every run.
var testPeers = overlaytest.Peers(8, 4)

const network = "test"

var alice, bob, carol, dave = testPeers[0], testPeers[1], testPeers[2], testPeers[3]

// subnet returns the n-th subnet.
func subnet(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{11 + byte(n>>16), byte(n >> 8), byte(n), 0}),
		24)
}

// owned returns a lease of s for p with epoch 1, issued at that time.
func owned(p overlaytest.Peer, s netip.Prefix, at time.Time, proxy *coords.Proxy) lease.Lease {
	return lease.Lease{Network: network, Subnet: s, Owner: p.ID, Epoch: 1, Issued: at,
		Expires: at.Add(10 * time.Minute), Proxy: proxy}
}

func seal(t testing.TB, p overlaytest.Peer, l lease.Lease) []byte {
	t.Helper()
	b, err := lease.SealLease(l, p.Key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// granted returns a lease of s for to with epoch 2 and a grant by from.
func granted(t testing.TB, from, to overlaytest.Peer, s netip.Prefix, at time.Time) lease.Lease {
	t.Helper()
	old := owned(from, s, at, somewhere(1))
	g, err := old.GrantTo(to.ID, at, from.Key)
	if err != nil {
		t.Fatal(err)
	}
	l, times := old.Next(to.ID), owned(to, s, at, nil)
	l.Issued, l.Expires, l.Grant = times.Issued, times.Expires, g
	return l
}

func somewhere(x float64) *coords.Proxy {
	return &coords.Proxy{
		At:    coords.Coordinate{Vec: []float64{x, -7.3, 3.1, 60.7}, Height: 2.2, Error: 0.21},
		Delay: 40.3, Scale: 2.1, PerKB: 0.13, Error: 0.12, Samples: 8,
	}
}

func message(t testing.TB, leases ...[]byte) []byte {
	t.Helper()
	b, err := wire.Marshal(announcement{Leases: leases})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// fakeNode is a Node; nil functions do nothing.
type fakeNode struct {
	peers   int
	own     func() []OwnSubnet
	onLease func(lease.Lease)
}

func (n *fakeNode) OwnSubnets() []OwnSubnet {
	if n.own == nil {
		return nil
	}
	return n.own()
}

func (n *fakeNode) OtherPeers() int { return n.peers }

func (n *fakeNode) ObserveLease(l lease.Lease) {
	if n.onLease != nil {
		n.onLease(l)
	}
}

// newMap returns a Map of p that is not running and needs no network.
func newMap(t testing.TB, p overlaytest.Peer, change func(*Config)) *Map {
	t.Helper()
	c := DefaultConfig()
	c.Self, c.Network, c.PubSub, c.Topic = p.ID, network, new(pubsub.PubSub), "owners"
	c.Node = &fakeNode{peers: 1}
	if change != nil {
		change(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func within(k assign.Delegations, p string) []assign.Delegation {
	return slices.Collect(k.Within(netip.MustParsePrefix(p)))
}

// member is a peer with a Map.
type member struct {
	*Map
	me   overlaytest.Peer
	host host.Host

	mu  sync.Mutex
	own []OwnSubnet
}

func (m *member) has(own ...OwnSubnet) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = own
}

func (m *member) subnets() []OwnSubnet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.own)
}

// join starts a member.
func join(t *testing.T, me overlaytest.Peer, change func(*Config)) *member {
	t.Helper()
	m := newMember(t, me, change)
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
	return m
}

// newMember returns a member with a Map that does not run yet.
func newMember(t *testing.T, me overlaytest.Peer, change func(*Config)) *member {
	t.Helper()
	h := overlaytest.HostOf(t, me.Key)
	gossip, end := context.WithCancel(context.Background())
	t.Cleanup(end)
	ps, err := pubsub.NewGossipSub(gossip, h,
		pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { return string(m.Data) }))
	if err != nil {
		t.Fatal(err)
	}
	m := &member{me: me, host: h}
	c := DefaultConfig()
	c.Self, c.Network, c.PubSub, c.Topic = me.ID, network, ps, "owners"
	c.Node = &fakeNode{peers: 2, own: m.subnets}
	c.Step, c.Gap, c.Settle = 5*time.Millisecond, 20*time.Millisecond, 1500*time.Millisecond
	if change != nil {
		change(&c)
	}
	if m.Map, err = New(c); err != nil {
		t.Fatal(err)
	}
	return m
}

func connect(t *testing.T, a, b *member) {
	t.Helper()
	if err := a.host.Connect(t.Context(), peer.AddrInfo{ID: b.host.ID(),
		Addrs: b.host.Addrs()}); err != nil {
		t.Fatal(err)
	}
}
