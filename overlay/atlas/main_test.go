package atlas

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p"
	pubsub "github.com/libp2p/go-libp2p-pubsub"
	pb "github.com/libp2p/go-libp2p-pubsub/pb"
	"github.com/libp2p/go-libp2p/core/crypto"
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

// someone is a peer with its key.
type someone struct {
	id  peer.ID
	key crypto.PrivKey
}

// folk are the same peers in every run.
var folk = overlaytest.Folk(8, 4, func(id peer.ID, key crypto.PrivKey) someone { return someone{id, key} })

var alice, bob, carol = folk[0], folk[1], folk[2]

// subnet names the n-th.
func subnet(n int) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{11 + byte(n>>16), byte(n >> 8), byte(n), 0}), 24)
}

// owned is a lease of p at that time, of epoch 1.
func owned(p someone, s netip.Prefix, at time.Time, proxy *coords.Proxy) lease.Lease {
	return lease.Lease{Subnet: s, Owner: p.id, Epoch: 1, Issued: at, Expires: at.Add(10 * time.Minute), Proxy: proxy}
}

func seal(t testing.TB, p someone, l lease.Lease) []byte {
	t.Helper()
	b, err := lease.SealLease(l, p.key)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// granted is a lease of to at epoch 2, with from's grant.
func granted(t testing.TB, from, to someone, s netip.Prefix, at time.Time) lease.Lease {
	t.Helper()
	g, err := lease.SealGrant(lease.Grant{Subnet: s, From: from.id, To: to.id, Epoch: 2, Issued: at}, from.key)
	if err != nil {
		t.Fatal(err)
	}
	l := owned(to, s, at, somewhere(1))
	l.Epoch, l.Grant = 2, g
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

// alone is an Atlas of p that no network is needed for.
func alone(t testing.TB, p someone, change func(*Config)) *Atlas {
	t.Helper()
	c := DefaultConfig()
	c.Self, c.PubSub, c.Topic = p.id, new(pubsub.PubSub), "atlas"
	c.Own, c.Peers = func() []Own { return nil }, func() int { return 1 }
	if change != nil {
		change(&c)
	}
	a, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func within(k assign.Known, p string) []assign.Delegation {
	return slices.Collect(k.Within(netip.MustParsePrefix(p)))
}

// member is a peer with an Atlas that runs.
type member struct {
	*Atlas
	me   someone
	host host.Host

	mu  sync.Mutex
	own []Own
}

func (m *member) has(own ...Own) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.own = own
}

func (m *member) subnets() []Own {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.own)
}

// join makes a running member.
func join(t *testing.T, me someone, change func(*Config)) *member {
	t.Helper()
	h := overlaytest.Host(t, libp2p.Identity(me.key))
	ctx, cancel := context.WithCancel(context.Background())
	gossip, end := context.WithCancel(context.Background())
	ps, err := pubsub.NewGossipSub(gossip, h, pubsub.WithMessageSignaturePolicy(pubsub.StrictNoSign), pubsub.WithNoAuthor(),
		pubsub.WithMessageIdFn(func(m *pb.Message) string { return string(m.Data) }))
	if err != nil {
		t.Fatal(err)
	}
	m := &member{me: me, host: h}
	c := DefaultConfig()
	c.Self, c.PubSub, c.Topic, c.Own, c.Peers = me.id, ps, "atlas", m.subnets, func() int { return 2 }
	c.Step, c.Gap, c.Settle = 5*time.Millisecond, 20*time.Millisecond, 1500*time.Millisecond
	if change != nil {
		change(&c)
	}
	if m.Atlas, err = New(c); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- m.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		end()
	})
	return m
}

func connect(t *testing.T, a, b *member) {
	t.Helper()
	if err := a.host.Connect(t.Context(), peer.AddrInfo{ID: b.host.ID(), Addrs: b.host.Addrs()}); err != nil {
		t.Fatal(err)
	}
}
