package attack

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-libp2p"
	record "github.com/libp2p/go-libp2p-record"
	"github.com/libp2p/go-libp2p/core/crypto"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/coords"
	"peerd/node"
	"peerd/overlay"
	"peerd/overlay/lease"
	"peerd/overlay/peers"
	"peerd/overlay/wire"
	"peerd/store"
)

// fields is a message or a part of one, by the numbers of its fields.
type fields = map[int]any

// identity is a key with its peer ID.
type identity struct {
	key crypto.PrivKey
	id  peer.ID
}

func newIdentity() (identity, error) {
	key, _, err := crypto.GenerateEd25519Key(rand.Reader)
	if err != nil {
		return identity{}, err
	}
	id, err := peer.IDFromPrivateKey(key)
	return identity{key, id}, err
}

// A stranger is a hostile peer that speaks the network's protocols by hand.
type stranger struct {
	identity
	e     *arena
	host  host.Host
	place func() coords.Coordinate // that it claims; nil: next to everything
}

// stranger starts a hostile peer.
func (e *arena) stranger() (*stranger, error) {
	who, err := newIdentity()
	if err != nil {
		return nil, err
	}
	h, err := libp2p.New(libp2p.Identity(who.key), libp2p.DisableRelay(), libp2p.DisableMetrics(),
		libp2p.ResourceManager(nil), libp2p.ListenAddrStrings("/ip4/127.0.0.1/tcp/0"))
	if err != nil {
		return nil, fmt.Errorf("attack: start stranger: %w", err)
	}
	e.closers = append(e.closers, h.Close)
	return &stranger{identity: who, e: e, host: h}, nil
}

// dial opens a conversation with a peer, which may just be starting.
func (s *stranger) dial(to *node.Node, proto protocol.ID) (c *wire.Conn, err error) {
	limits := wire.Limits{MaxMsg: 16 << 20, Timeout: 30 * time.Second}
	s.e.within(10*time.Second, func() bool {
		if err = s.host.Connect(s.e.ctx, addrOf(to)); err == nil {
			c, err = wire.Dial(s.e.ctx, s.host, to.ID(), limits, proto)
		}
		return err == nil || s.e.ctx.Err() != nil
	})
	return c, err
}

// ask sends a message and reads the answer, compressed or not.
func (s *stranger) ask(
	to *node.Node, proto protocol.ID, message any, packed, packedAnswer bool,
) (answer fields, err error) {
	c, err := s.dial(to, proto)
	if err != nil {
		return nil, err
	}
	defer func() { c.End(err) }()
	if packed {
		err = c.SendZ(message)
	} else {
		err = c.Send(message)
	}
	if err != nil {
		return nil, err
	}
	if packedAnswer {
		err = c.RecvZ(&answer)
	} else {
		err = c.Recv(&answer)
	}
	return answer, err
}

// batch sends URLs of one host to a peer, and returns the result for them.
func (s *stranger) batch(
	to *node.Node, host string, at netip.Addr, urls []string,
) (result any, err error) {
	items := make([]any, len(urls))
	for i, u := range urls {
		items[i] = fields{1: u}
	}
	answer, err := s.ask(to, s.e.names.Batch(), fields{1: []any{fields{1: host,
		2: store.SubnetOf(at), 3: at, 4: items}}}, true, false)
	if err != nil {
		return nil, err
	}
	results, _ := answer[1].([]byte)
	if len(results) != 1 {
		list, _ := answer[1].([]any)
		if len(list) != 1 {
			return nil, fmt.Errorf("attack: receipt %v", answer)
		}
		return list[0], nil
	}
	return uint64(results[0]), nil
}

// introduce runs an exchange of beacons with a peer, and relays others' beacons. addrs are the
// addresses that the stranger announces.
func (s *stranger) introduce(to *node.Node, relayed []any) error {
	beacon, err := s.beacon(s.identity, s.host.Addrs()[0].String())
	if err != nil {
		return err
	}
	c, err := s.dial(to, s.e.names.Coords())
	if err != nil {
		return err
	}
	defer func() { c.End(err) }()
	if err = c.Send(fields{1: beacon, 2: fields{1: []byte{}, 3: 64}}); err != nil {
		return err
	}
	var answer fields
	if err = c.Recv(&answer); err != nil {
		return err
	}
	for i := range 3 {
		if err = c.Send(fields{1: i}); err != nil {
			return err
		}
		if err = c.Recv(&answer); err != nil {
			return err
		}
	}
	err = c.Send(fields{1: s.at(), 2: relayed})
	return err
}

// at is the coordinate that a hostile peer claims.
func (s *stranger) at() coords.Coordinate {
	if s.place != nil {
		return s.place()
	}
	return coords.Coordinate{Vec: make([]float64, coords.DefaultConfig().Dimensions), Error: 0.1}
}

// beacon returns a signed beacon.
func (s *stranger) beacon(who identity, addrs ...string) ([]byte, error) {
	now := s.e.now()
	return peers.Seal(who.key, s.e.names.Beacons(), peers.Beacon{Peer: who.id, At: s.at(),
		Capacity: 1, Seq: uint64(now.UnixMilli()), Time: now, Addrs: addrs,
		Interval: 15 * time.Second})
}

// claim returns a lease of epoch 1 that a stranger has made.
func (e *arena) claim(p netip.Prefix, who identity) (lease.Lease, []byte, error) {
	now := e.now()
	l := lease.Lease{Network: e.names.Network(), Subnet: p, Owner: who.id, Epoch: 1,
		Claimed: now, Issued: now, Expires: now.Add(time.Hour)}
	sealed, err := lease.SealLease(l, who.key)
	return l, sealed, err
}

// A member is a hostile peer with a part of the network's DHT.
type member struct {
	*stranger
	net *overlay.Net
}

// trusting accepts all records.
type trusting struct{}

func (trusting) Validate(string, []byte) error        { return nil }
func (trusting) Select(string, [][]byte) (int, error) { return 0, nil }

// member starts a hostile member of the network.
func (e *arena) member() (*member, error) {
	who, err := newIdentity()
	if err != nil {
		return nil, err
	}
	c := overlay.DefaultConfig()
	c.Key, c.Network, c.Listen = who.key, e.names.Network(), []string{"/ip4/127.0.0.1/tcp/0"}
	c.Validators = validators()
	c.Bootstrap = []peer.AddrInfo{addrOf(e.nodes[0])}
	n, err := overlay.New(c)
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, n.Close)
	e.running.Go(func() { _ = n.Run(e.ctx) }) // it ends with ctx only
	for _, v := range e.nodes {
		if err := n.Host.Connect(e.ctx, addrOf(v)); err != nil {
			return nil, err
		}
	}
	return &member{&stranger{identity: who, e: e, host: n.Host}, n}, nil
}

// put writes a record to the DHT, and returns how many peers have stored it.
func (m *member) put(key string, value []byte) int {
	ctx, cancel := context.WithTimeout(m.e.ctx, 20*time.Second)
	defer cancel()
	acks, _, _ := m.net.Values().Put(ctx, key, value) // a refusal is a result
	return acks
}

func validators() map[string]record.Validator {
	return map[string]record.Validator{overlay.LeaseNamespace: trusting{},
		overlay.HomeNamespace: trusting{}}
}

// foreignBeacon sends a beacon that was signed for another network.
func (s *stranger) foreignBeacon(to *node.Node) error {
	now := s.e.now()
	sealed, err := peers.Seal(s.key, "/peerd/another/beacons/1", peers.Beacon{Peer: s.id,
		At: s.at(), Seq: uint64(now.UnixMilli()), Time: now,
		Addrs: []string{s.host.Addrs()[0].String()}})
	if err != nil {
		return err
	}
	_, err = s.ask(to, s.e.names.Heartbeat(), fields{2: sealed}, false, false)
	return err
}

// dropBatches acknowledges all URLs that are sent to the stranger, and drops them. It returns the
// number of batches.
func (s *stranger) dropBatches() *atomic.Int64 {
	var n atomic.Int64
	server := wire.Serve(s.host, s.e.names.Batch(),
		wire.Limits{MaxMsg: 12 << 20, Timeout: 30 * time.Second}, nil,
		func(_ context.Context, c *wire.Conn) error {
			var b struct {
				Groups []any `cbor:"1,keyasint"`
			}
			if err := c.RecvZ(&b); err != nil {
				return err
			}
			n.Add(1)
			results := make([]byte, len(b.Groups))
			for i := range results {
				results[i] = 1 // accepted
			}
			return c.Send(fields{1: results})
		})
	s.e.closers = append(s.e.closers, func() error { server.Close(); return nil })
	return &n
}

// claimToCrawl answers all questions about URLs by saying that the stranger crawls their hosts. It
// returns the number of questions.
func (s *stranger) claimToCrawl() *atomic.Int64 {
	var n atomic.Int64
	server := wire.Serve(s.host, s.e.names.Trace(),
		wire.Limits{MaxMsg: 8 << 10, Timeout: 10 * time.Second}, nil,
		func(_ context.Context, c *wire.Conn) error {
			var q fields
			if err := c.Recv(&q); err != nil {
				return err
			}
			n.Add(1)
			return c.Send(fields{2: fields{7: true}})
		})
	s.e.closers = append(s.e.closers, func() error { server.Close(); return nil })
	return &n
}
