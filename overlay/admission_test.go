package overlay

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	ma "github.com/multiformats/go-multiaddr"
	manet "github.com/multiformats/go-multiaddr/net"

	"peerd/overlay/admission"
	"peerd/overlay/overlaytest"
	"peerd/overlay/wire"
)

const invited = "invited-net"

// rulesOf returns the rules of a network that the peer with seed 1 has founded.
func rulesOf() admission.Rules {
	_, founder := overlaytest.Identity(1)
	return admission.Rules{Network: invited, Mode: admission.Invite, Founders: []peer.ID{founder}}
}

// membershipOf returns one of the peer with that seed, signed by the founder.
func membershipOf(t *testing.T, seed int64) admission.Membership {
	t.Helper()
	key, _ := overlaytest.Identity(1)
	_, p := overlaytest.Identity(seed)
	sealed, err := admission.NewInvitation(key, admission.Invitation{Network: invited, Uses: 1,
		Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	s := admission.Issuer{Rules: rulesOf(), Key: key, File: t.TempDir() + "/uses"}
	m, err := s.Redeem(p, sealed)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// startInvited starts the peer with that seed under rules, which may be wrong.
func startInvited(
	t *testing.T, seed int64, rules admission.Rules, m admission.Membership, boot ...peer.AddrInfo,
) (*Net, *logLines) {
	t.Helper()
	lines := &logLines{}
	cfg := testConfig(t, seed, invited)
	cfg.Admission, cfg.Membership, cfg.Bootstrap = rules, m, boot
	cfg.Logger = lines.logger()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	runNet(t, n)
	return n, lines
}

// echoed reports whether a gets an answer from b over a protocol for members.
func echoed(ctx context.Context, a, b *Net) error {
	c, err := wire.Dial(ctx, a.Host, b.Self(), wire.Limits{MaxMsg: 64, Timeout: time.Second},
		a.Names.Batch())
	if err != nil {
		return err
	}
	defer c.Reset()
	var got string
	return errors.Join(c.Send("hello"), c.Recv(&got))
}

// answered sends valid messages of two protocols from a to b past the gate of a, and returns why
// there was no answer to each.
func answered(t *testing.T, a, b *Net) map[protocol.ID]error {
	t.Helper()
	all := map[protocol.ID]error{}
	for proto, frame := range map[protocol.ID][]byte{
		b.Names.Batch(): append([]byte{6, 0x65}, "hello"...), // a text in CBOR
		b.Names.DHT():   {2, 8, 5},                           // PING in protobuf
	} {
		all[proto] = func() error {
			if err := a.Strangers.Connect(t.Context(), infoOf(b)); err != nil {
				return err
			}
			st, err := a.Strangers.NewStream(t.Context(), b.Self(), proto)
			if err != nil {
				return err
			}
			defer func() { _ = st.Reset() }()
			_ = st.SetDeadline(time.Now().Add(10 * time.Second))
			if _, err := st.Write(frame); err != nil {
				return err
			}
			_, err = io.ReadFull(st, make([]byte, 1))
			return err
		}()
	}
	return all
}

func serveEcho(n *Net) {
	n.Handle(n.Names.Batch(), wire.Limits{MaxMsg: 64, Timeout: time.Second},
		func(_ context.Context, c *wire.Conn) error {
			var text string
			return errors.Join(c.Recv(&text), c.Send(text))
		})
}

// Members find each other, in both directions, and through a third one.
func TestAdmission(t *testing.T) {
	founder, _ := startInvited(t, 1, rulesOf(), nil)
	serveEcho(founder)
	a, _ := startInvited(t, 2, rulesOf(), membershipOf(t, 2), infoOf(founder))
	b, _ := startInvited(t, 3, rulesOf(), membershipOf(t, 3), infoOf(founder))
	serveEcho(a)
	eventually(t, "all know each other", func() bool {
		return founder.DHT.RoutingTable().Size() == 2 && a.DHT.RoutingTable().Size() == 2 &&
			b.DHT.RoutingTable().Size() == 2
	})
	for _, pair := range [][2]*Net{{a, founder}, {b, a}, {b, founder}, {founder, a}} {
		if err := echoed(t.Context(), pair[0], pair[1]); err != nil {
			t.Error(err)
		}
	}
	for proto, err := range answered(t, a, founder) {
		if err != nil {
			t.Errorf("%s did not answer a member: %v", proto, err)
		}
	}
	eventually(t, "gossip spreads", func() bool {
		return len(founder.PubSub.ListPeers("")) == 2
	})
	if err := a.Host.Network().ClosePeer(founder.Self()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "admitted again on a new connection", func() bool {
		return echoed(t.Context(), a, founder) == nil && echoed(t.Context(), founder, a) == nil
	})
}

// A peer that has the profile but no membership gets nothing: no protocol is served, nothing is
// sent to it, and it is disconnected. So are peers with a membership of another peer, and with one
// that another founder has signed.
func TestUninvited(t *testing.T) {
	t.Parallel()
	founder, log := startInvited(t, 1, rulesOf(), nil)
	serveEcho(founder)
	stolen := membershipOf(t, 2)
	for seed, m := range map[int64]admission.Membership{4: nil, 5: stolen} {
		_, self := overlaytest.Identity(seed)
		lenient := rulesOf() // a changed program takes itself and everyone else for a member
		lenient.Founders = append(lenient.Founders, self)
		s, its := startInvited(t, seed, lenient, m, infoOf(founder))
		eventually(t, "both sides refuse", func() bool {
			return len(log.with("refused peer that is not a member")) > 0 &&
				len(its.with("peer refused this one's membership")) > 0
		})
		if err := s.Strangers.Connect(t.Context(), infoOf(founder)); err != nil {
			t.Fatal(err)
		}
		for proto, err := range answered(t, s, founder) {
			if err == nil {
				t.Errorf("%s answered a peer that is not a member", proto)
			}
		}
		if err := echoed(t.Context(), founder, s); err == nil {
			t.Error("the founder opened a stream to a peer that is not a member")
		}
		eventually(t, "disconnected", func() bool { return !connected(founder, s) })
		if got := founder.DHT.RoutingTable().Size() + len(founder.PubSub.ListPeers("")); got != 0 {
			t.Errorf("the routing table and gossip have %d peers, want none", got)
		}
	}
}

// A peer without membership does not start.
func TestUninvitedDoesNotStart(t *testing.T) {
	cfg := testConfig(t, 2, invited)
	cfg.Admission = rulesOf()
	if _, err := New(cfg); !errors.Is(err, admission.ErrNoMember) {
		t.Errorf("New() = %v, want ErrNoMember", err)
	}
}

type joinAddrs []string

func (a joinAddrs) JoinAddrs() []string { return a }

// A new peer gets the profile, and for its invitation a membership with which it is served.
func TestJoin(t *testing.T) {
	founder, _ := startInvited(t, 1, rulesOf(), nil)
	serveEcho(founder)
	key, _ := overlaytest.Identity(1)
	door := &admission.Door{Host: founder.Strangers, Protocol: founder.Names.Join(),
		Rules: rulesOf(), Profile: []byte("name = 'x'"),
		Issuer: &admission.Issuer{Rules: rulesOf(), Key: key, File: t.TempDir() + "/uses"},
		Peers:  joinAddrs{bootstrapAddr(founder.Self(), founder.Host.Addrs()[0])},
	}
	// The first peer that asks finds this one busy.
	var served *wire.Server
	founder.Strangers.SetStreamHandler(door.Protocol, func(s network.Stream) {
		served = door.Serve()
		_ = s.Conn().Close()
	})
	defer func() { served.Close() }()
	invitation, err := admission.NewInvitation(key, admission.Invitation{Network: invited,
		Uses: 1, Expires: time.Now().Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(seed int64, sealed []byte) (admission.Answer, error) {
		k, _ := overlaytest.Identity(seed)
		return AskToJoin(t.Context(), Config{Key: k, Network: invited,
			Bootstrap: []peer.AddrInfo{infoOf(founder)}}, sealed)
	}
	if got, err := ask(2, nil); !errors.Is(err, admission.ErrRefused) || len(got.Profile) > 0 {
		t.Errorf("without invitation: %q, %v, want ErrRefused", got.Profile, err)
	}
	got, err := ask(2, invitation)
	if err != nil || string(got.Profile) != "name = 'x'" || len(got.Peers) != 1 {
		t.Fatalf("AskToJoin() = %+v, %v", got, err)
	}
	if _, err := ask(3, invitation); !errors.Is(err, admission.ErrRefused) {
		t.Errorf("a second peer with the same invitation: %v, want ErrRefused", err)
	}
	a, _ := startInvited(t, 2, rulesOf(), got.Membership, infoOf(founder))
	eventually(t, "served", func() bool { return echoed(t.Context(), a, founder) == nil })
}

// If the first connection to a peer breaks off during the handshakes, the peer is asked again. A
// peer with another key than expected is not.
func TestJoinAgain(t *testing.T) {
	founder, _ := startInvited(t, 1, rulesOf(), nil)
	door := &admission.Door{Host: founder.Strangers, Protocol: founder.Names.Join(),
		Rules: rulesOf(), Profile: []byte("name = 'x'"), Peers: joinAddrs{}}
	served := door.Serve()
	defer served.Close()
	addr, accepted := breakFirst(t, founder.Host.Addrs()[0])
	key, _ := overlaytest.Identity(2)
	_, other := overlaytest.Identity(3)
	ask := func(expected peer.ID) error {
		_, err := AskToJoin(t.Context(), Config{Key: key, Network: invited,
			Bootstrap: []peer.AddrInfo{{ID: expected, Addrs: []ma.Multiaddr{addr}}}}, nil)
		return err
	}
	if err := ask(founder.Self()); !errors.Is(err, admission.ErrRefused) {
		t.Errorf("AskToJoin() = %v, want ErrRefused", err)
	}
	if n := accepted.Load(); n != 2 {
		t.Errorf("%d connections, want 2", n)
	}
	if err := ask(other); err == nil || accepted.Load() != 3 {
		t.Errorf("AskToJoin() of a peer with another key = %v, %d connections, want an error and 3",
			err, accepted.Load())
	}
}

// breakFirst returns an address that passes connections on to a peer, but the first, which it
// closes, and the number of connections that it has accepted.
func breakFirst(t *testing.T, to ma.Multiaddr) (ma.Multiaddr, *atomic.Int32) {
	t.Helper()
	l, err := manet.Listen(ma.StringCast("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		t.Fatal(err)
	}
	var accepted atomic.Int32
	var wg sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if accepted.Add(1) == 1 {
				_ = c.Close()
				continue
			}
			wg.Go(func() { passOn(c, to) })
		}
	})
	return l.Multiaddr(), &accepted
}

// passOn passes bytes on between a connection and a peer until both have closed.
func passOn(c manet.Conn, to ma.Multiaddr) {
	defer c.Close()
	up, err := manet.Dial(to)
	if err != nil {
		return
	}
	defer up.Close()
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = io.Copy(up, c); _ = up.Close() })
	wg.Go(func() { _, _ = io.Copy(c, up); _ = c.Close() })
	wg.Wait()
}

// A peer that is refused is told so over QUIC, too, where a stream that is reset loses what was
// sent last.
func TestRefusedOverQUIC(t *testing.T) {
	start := func(seed int64) (host.Host, *admission.Gate) {
		cfg := DefaultConfig()
		cfg.Key, cfg.Network = testKey(t, seed), invited
		cfg.Listen = []string{"/ip4/127.0.0.1/udp/0/quic-v1"}
		h, err := newHost(cfg, &traffic{}, newGater(cfg))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Close() })
		g := admission.NewGate(h, rulesOf(), nil, "/membership")
		server := g.Serve(nil)
		t.Cleanup(func() { server.Close(); g.End() })
		return h, g
	}
	founder, _ := start(1)
	stranger, gate := start(2)
	to := peer.AddrInfo{ID: founder.ID(), Addrs: founder.Addrs()}
	if err := stranger.Connect(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	if err := gate.Admit(t.Context(), founder.ID()); !errors.Is(err, admission.ErrRefused) {
		t.Errorf("Admit() = %v, want %v", err, admission.ErrRefused)
	}
}
