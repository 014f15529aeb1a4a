package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	pb "github.com/libp2p/go-libp2p-kad-dht/pb"
	kb "github.com/libp2p/go-libp2p-kbucket"
	record "github.com/libp2p/go-libp2p-record"
	recpb "github.com/libp2p/go-libp2p-record/pb"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"
	"github.com/libp2p/go-msgio/pbio"

	"peerd/internal/lru"
)

// maxAnswer bounds an answer in the DHT's protocol: a record and the addresses
// of closer peers. Bytes.
const maxAnswer = 1 << 20

// errSilent means that a peer did not answer in time.
var errSilent = errors.New("overlay: no answer in time")

const (
	// lookupFor is how long the result of a lookup is used again: a claim reads its key and then
	// writes it. Members that connect in this time are known without a lookup.
	lookupFor = 10 * time.Second
	// maxLookups is how many results are remembered.
	maxLookups = 1024
)

// holders finds the peers that hold a key and sends them requests one by one, in the protocol of
// records or, if a peer does not serve that, in the DHT's own. It is safe for concurrent use.
type holders struct {
	host    host.Host
	dht     *dht.IpfsDHT
	proto   protocol.ID
	records protocol.ID
	msg     *pb.ProtocolMessenger

	mu      sync.Mutex // never held during I/O
	lookups *lru.Simple[string, lookupResult]
	all     lookupResult // of the last lookup that found fewer than numHolders: all members
}

// NearestTo returns those of all that are the nearest to the key of a record, as many as hold it,
// the nearest first.
func NearestTo(key string, all []peer.ID) []peer.ID {
	near := kb.SortClosestPeers(all, kb.ConvertKey(key))
	return near[:min(len(near), numHolders)]
}

// lookupResult is what a complete lookup has found.
type lookupResult struct {
	peers []peer.ID
	at    time.Time
}

func newHolders(h host.Host, d *dht.IpfsDHT, n Names) *holders {
	r := &holders{host: h, dht: d, proto: n.DHT(), records: n.Record(),
		lookups: lru.NewSimple[string, lookupResult](maxLookups, nil)}
	// The constructor fails only on bad options, and there are none.
	r.msg, _ = pb.NewProtocolMessenger(sender{host: h, proto: r.proto})
	return r
}

// known returns up to numHolders members nearest to key without a lookup: those of the routing
// table and, if these are too few, connected members, because a peer that has just
// connected is not in the table yet.
func (r *holders) known(key string) []peer.ID {
	id := kb.ConvertKey(key)
	near := r.dht.RoutingTable().NearestPeers(id, numHolders)
	if len(near) >= numHolders {
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
	return append(near, more[:min(len(more), numHolders-len(near))]...)
}

// lookup returns the members nearest to key by a DHT lookup that began at most lookupFor ago. At
// the end of ctx it returns those found so far.
func (r *holders) lookup(ctx context.Context, key string) []peer.ID {
	now := time.Now()
	if found, ok := r.remembered(key, now); ok {
		return found
	}
	found, err := r.dht.GetClosestPeers(ctx, key) // fails on an empty table or a timeout
	found = slices.DeleteFunc(found, func(p peer.ID) bool { return p == r.host.ID() })
	if err != nil || len(found) == 0 {
		return found
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := (lookupResult{found, now}); len(found) < numHolders {
		r.all = l
	} else {
		r.lookups.Add(key, l)
	}
	return found
}

// remembered returns the result of an earlier lookup that is still used. Read only.
func (r *holders) remembered(key string, now time.Time) ([]peer.ID, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l, ok := r.lookups.Get(key)
	if !ok || l.at.Before(r.all.at) {
		l = r.all
	}
	return l.peers, now.Sub(l.at) < lookupFor
}

// put asks p to hold a record, and returns the one that it holds then; nil without an error means
// that it has none. If that is another one, it is not validated.
func (r *holders) put(ctx context.Context, p peer.ID, key string, val []byte) ([]byte, error) {
	try, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	held, served, err := r.exchange(try, p, recordRequest{Key: key, Record: val}, val)
	if served || err != nil {
		return held, err
	}
	if r.msg.PutValue(try, p, record.MakePutRecord(key, val)) == nil {
		return val, nil
	}
	return r.get(ctx, p, key, val) // to tell a refusal from a dead peer
}

// get asks p for its record of key; nil without an error means that it has
// none, errSilent that it did not answer in time. known is the record that this peer has, or nil.
// Others are not validated.
func (r *holders) get(ctx context.Context, p peer.ID, key string, known []byte) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	held, served, err := r.exchange(ctx, p, recordRequest{Key: key, Known: digest(known)}, known)
	if err == nil && !served {
		var rec *recpb.Record
		rec, _, err = r.msg.GetValue(ctx, p, key)
		held = rec.GetValue()
	}
	if err == nil {
		return held, nil
	}
	if late(ctx, err) {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return nil, err
}

// late reports whether a request failed because no answer came in time.
func late(ctx context.Context, err error) bool {
	var e interface{ Timeout() bool }
	return ctx.Err() != nil || errors.As(err, &e) && e.Timeout()
}

// exchange sends a request to p. It reports whether p has served it, and fails if the DHT's
// protocol need not be tried.
func (r *holders) exchange(
	ctx context.Context, p peer.ID, q recordRequest, known []byte,
) (held []byte, served bool, err error) {
	if served, err := r.serves(ctx, p); err != nil || !served || len(q.Record) > maxRecord {
		return nil, false, err
	}
	a, err := r.request(ctx, p, q)
	if err == nil {
		held, err = a.record(known)
	}
	if err != nil && !late(ctx, err) {
		return nil, false, nil // it refuses, or has changed its version
	}
	return held, err == nil, err
}

// sender speaks the DHT's protocol with one stream per request. The DHT's own sender
// queues all requests to a peer on one stream, so that each of a hundred claims would
// wait for the one before.
type sender struct {
	host  host.Host
	proto protocol.ID
}

var _ pb.MessageSender = sender{}

// SendRequest sends m and waits for the answer until ctx ends.
func (s sender) SendRequest(ctx context.Context, p peer.ID, m *pb.Message) (*pb.Message, error) {
	var answer pb.Message
	err := s.exchange(ctx, p, func(st network.Stream) error {
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

// SendMessage sends m without waiting for an answer.
func (s sender) SendMessage(ctx context.Context, p peer.ID, m *pb.Message) error {
	return s.exchange(ctx, p, func(st network.Stream) error {
		return pbio.NewDelimitedWriter(st).WriteMsg(m)
	})
}

// exchange runs f on a new stream, which it resets at the end of ctx.
func (s sender) exchange(ctx context.Context, p peer.ID, f func(network.Stream) error) error {
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
