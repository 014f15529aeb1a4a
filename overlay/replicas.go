package overlay

import (
	"context"
	"fmt"
	"slices"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	kb "github.com/libp2p/go-libp2p-kbucket"
	recpb "github.com/libp2p/go-libp2p-record/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-msgio/pbio"
)

// maxAnswer bounds an answer of the DHT's protocol: a record and the addresses
// of closer peers. Bytes.
const maxAnswer = 1 << 20

// replicas finds the peers that hold a key and talks to them one by one, in
// the DHT's own protocol.
type replicas struct {
	host   host.Host
	dht    *dht.IpfsDHT
	proto  protocol.ID
	k      int
	answer time.Duration // bound of one answer
	msg    *pb.ProtocolMessenger
}

func newReplicas(h host.Host, d *dht.IpfsDHT, n Names, cfg Config) *replicas {
	r := &replicas{host: h, dht: d, proto: n.DHT(), k: cfg.Replicas, answer: cfg.AnswerTimeout}
	// The constructor fails on bad options only, and there are none.
	r.msg, _ = pb.NewProtocolMessenger(sender{host: h, proto: r.proto})
	return r
}

// known lists up to k members nearest to key that need no lookup: from the
// routing table, filled up with connected members, as a peer that has just
// connected is not in the table yet.
func (r *replicas) known(key string) []peer.ID {
	id := kb.ConvertKey(key)
	near := r.dht.RoutingTable().NearestPeers(id, r.k)
	if len(near) >= r.k {
		return near
	}
	var more []peer.ID
	for _, p := range r.host.Network().Peers() {
		spoken, err := r.host.Peerstore().SupportsProtocols(p, r.proto)
		if err == nil && len(spoken) > 0 && !slices.Contains(near, p) {
			more = append(more, p)
		}
	}
	more = kb.SortClosestPeers(more, id)
	return append(near, more[:min(len(more), r.k-len(near))]...)
}

// lookup finds the members nearest to key by asking around. It returns those
// found by the end of ctx, if not all.
func (r *replicas) lookup(ctx context.Context, key string) []peer.ID {
	found, _ := r.dht.GetClosestPeers(ctx, key) // an empty table, or the time is up
	return slices.DeleteFunc(found, func(p peer.ID) bool { return p == r.host.ID() })
}

// put asks p to hold a record. An error says nothing about why: p may be dead
// or hold a better one.
func (r *replicas) put(ctx context.Context, p peer.ID, rec *recpb.Record) error {
	ctx, cancel := context.WithTimeout(ctx, r.answer)
	defer cancel()
	return r.msg.PutValue(ctx, p, rec)
}

// get asks p for its record of key; nil without an error means that it has
// none. The value is not validated.
func (r *replicas) get(ctx context.Context, p peer.ID, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, r.answer)
	defer cancel()
	rec, _, err := r.msg.GetValue(ctx, p, key)
	if err != nil {
		return nil, err
	}
	return rec.GetValue(), nil
}

// sender speaks the DHT's protocol, one stream a request. The DHT's own keeps
// one stream a peer and lets requests queue behind each other there, so that
// one peer's hundred claims would each wait for the one before.
type sender struct {
	host  host.Host
	proto protocol.ID
}

var _ pb.MessageSender = sender{}

// SendRequest sends m and waits for the answer until ctx ends.
func (s sender) SendRequest(ctx context.Context, p peer.ID, m *pb.Message) (*pb.Message, error) {
	var answer pb.Message
	err := s.talk(ctx, p, func(st network.Stream) error {
		if err := pbio.NewDelimitedWriter(st).WriteMsg(m); err != nil {
			return err
		}
		return pbio.NewDelimitedReader(st, maxAnswer).ReadMsg(&answer)
	})
	if err != nil {
		return nil, err
	}
	return &answer, nil
}

// SendMessage sends m and waits for nothing.
func (s sender) SendMessage(ctx context.Context, p peer.ID, m *pb.Message) error {
	return s.talk(ctx, p, func(st network.Stream) error {
		return pbio.NewDelimitedWriter(st).WriteMsg(m)
	})
}

// talk runs f on a fresh stream that does not outlive ctx.
func (s sender) talk(ctx context.Context, p peer.ID, f func(network.Stream) error) error {
	st, err := s.host.NewStream(ctx, p, s.proto)
	if err != nil {
		return fmt.Errorf("overlay: open DHT stream: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer stop()
	if err := f(st); err != nil {
		_ = st.Reset()
		return fmt.Errorf("overlay: DHT request: %w", err)
	}
	return st.Close()
}
