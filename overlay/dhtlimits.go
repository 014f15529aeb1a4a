package overlay

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"

	dht "github.com/libp2p/go-libp2p-kad-dht"
	"github.com/libp2p/go-libp2p-kbucket/peerdiversity"
	"github.com/libp2p/go-libp2p/core/host"
	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"
	"golang.org/x/time/rate"

	"peerd/overlay/prefix"
)

// Limits on what other peers do with this peer's part of the DHT.
const (
	// nearFactor is how many times numHolders other peers may be nearer to a key than this
	// one for it to hold the record: routing tables differ, but not by more.
	nearFactor = 2
	// dhtRate and dhtBurst are how fast the requests of one peer are read, and those of one /24
	// or /48. An honest peer that takes up some hundred hosts a second stays below. Bytes per
	// second, and bytes.
	dhtRate, dhtBurst         = 512 << 10, 8 << 20
	dhtRateNear, dhtBurstNear = 1 << 20, 16 << 20
	// maxDHTRequest is the largest request: the key of a lookup, and little else. The library reads
	// up to 4 MiB, and allocates as many as the length says before they come. Bytes.
	maxDHTRequest = 4 << 10
	// maxMeters is how many peers and networks are counted at a time.
	maxMeters = 1024
	// perBucket and perTable are how many peers of one /16, or of one provider of IPv6, a bucket
	// and the whole routing table hold (Heilman et al. 2015). A bucket has numHolders.
	perBucket = 8
	perTable  = 48
)

// meteredHost is a host that reads the streams of the DHT no faster than dhtRate.
type meteredHost struct {
	host.Host
	mu     sync.Mutex
	meters map[string]*rate.Limiter // by peer ID, and by network
}

// SetStreamHandler implements host.Host.
func (h *meteredHost) SetStreamHandler(proto protocol.ID, handle network.StreamHandler) {
	h.Host.SetStreamHandler(proto, func(s network.Stream) {
		m := &meteredStream{Stream: s, meters: []*rate.Limiter{
			h.meter(string(s.Conn().RemotePeer()), dhtRate, dhtBurst)}}
		if addr, ok := prefix.Public(s.Conn().RemoteMultiaddr()); ok {
			m.meters = append(m.meters, h.meterOf(prefix.Near(addr)))
		}
		handle(m)
	})
}

func (h *meteredHost) meterOf(p netip.Prefix) *rate.Limiter {
	return h.meter(p.String(), dhtRateNear, dhtBurstNear)
}

// meter returns the meter of a peer or a network.
func (h *meteredHost) meter(of string, perSecond rate.Limit, burst int) *rate.Limiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.meters[of]
	if m != nil {
		return m
	}
	if len(h.meters) >= maxMeters {
		for k, m := range h.meters { // those that have used up nothing can be made again
			if m.Tokens() >= float64(m.Burst()) {
				delete(h.meters, k)
			}
		}
	}
	m = rate.NewLimiter(perSecond, burst)
	if len(h.meters) < maxMeters {
		h.meters[of] = m
	}
	return m
}

// errDHTRequest ends a stream with a request that is too large.
var errDHTRequest = errors.New("overlay: request to the DHT too large")

// meteredStream is a stream that is not read faster than its meters allow, and of which the
// requests, each after its length, have at most maxDHTRequest bytes. One goroutine reads it.
type meteredStream struct {
	network.Stream
	meters []*rate.Limiter

	left   int    // bytes of a request that are still to come
	length uint64 // what was read of the next length
	shift  uint   // bits of it
}

// Read implements network.Stream.
func (s *meteredStream) Read(b []byte) (int, error) {
	n, err := s.Stream.Read(b[:min(len(b), maxDHTRequest)])
	for _, m := range s.meters {
		_ = m.WaitN(context.Background(), n) // n is at most the burst
	}
	for rest := b[:n]; len(rest) > 0; {
		if s.left > 0 {
			part := min(s.left, len(rest))
			s.left, rest = s.left-part, rest[part:]
			continue
		}
		s.length |= uint64(rest[0]&0x7f) << s.shift
		s.shift += 7
		if s.length > maxDHTRequest || s.shift > 28 {
			return 0, errDHTRequest
		}
		if rest[0] < 0x80 {
			s.left, s.length, s.shift = int(s.length), 0, 0
		}
		rest = rest[1:]
	}
	return n, err
}

// diverse is kad-dht's filter by network of addresses, without networks that are not public: all
// peers of a testnet may have the same.
type diverse struct {
	peerdiversity.PeerIPGroupFilter
}

func newDiverse(h host.Host) diverse {
	return diverse{dht.NewRTPeerDiversityFilter(h, perBucket, perTable)}
}

// Allow implements peerdiversity.PeerIPGroupFilter. The key of a group is the first address of a
// /16, or the number of an autonomous system; IPv6 addresses of local networks have none.
func (d diverse) Allow(g peerdiversity.PeerGroupInfo) bool {
	key := string(g.IPGroupKey)
	if addr, err := netip.ParseAddr(key); err == nil && !prefix.IsPublic(addr) ||
		strings.HasPrefix(key, "unknown ASN") {
		return true
	}
	return d.PeerIPGroupFilter.Allow(g)
}
