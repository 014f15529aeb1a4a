package overlay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	kb "github.com/libp2p/go-libp2p-kbucket"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/peer"
	"github.com/libp2p/go-libp2p/core/protocol"

	"peerd/internal/lru"
)

// errSilent means that a peer did not answer in time.
var errSilent = errors.New("overlay: no answer in time")

const (
	// lookupFor is how long the result of a lookup is used again: a claim reads its key and then
	// writes it. Members that connect in this time are known without a lookup.
	lookupFor = 10 * time.Second
	// maxLookups is how many results are remembered.
	maxLookups = 1024
)

// holders finds the peers that hold a key and sends them requests one by one. It is safe for
// concurrent use.
type holders struct {
	host  host.Host
	dht   *dht.IpfsDHT
	proto protocol.ID // of records

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
	return &holders{host: h, dht: d, proto: n.Record(),
		lookups: lru.NewSimple[string, lookupResult](maxLookups, nil)}
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
	return r.exchange(ctx, p, recordRequest{Key: key, Record: val}, val)
}

// get asks p for its record of key; nil without an error means that it has
// none, errSilent that it did not answer in time. known is the record that this peer has, or nil.
// Others are not validated.
func (r *holders) get(ctx context.Context, p peer.ID, key string, known []byte) ([]byte, error) {
	return r.exchange(ctx, p, recordRequest{Key: key, Known: digest(known)}, known)
}

// exchange sends a request to p and returns the record that the answer means.
func (r *holders) exchange(
	ctx context.Context, p peer.ID, q recordRequest, known []byte,
) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	a, err := r.request(ctx, p, q)
	if err == nil {
		return a.record(known)
	}
	var e interface{ Timeout() bool }
	if ctx.Err() != nil || errors.As(err, &e) && e.Timeout() {
		err = fmt.Errorf("%w: %w", errSilent, err)
	}
	return nil, err
}
