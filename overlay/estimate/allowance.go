package estimate

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/internal/lru"
	"peerd/overlay/wire"
)

// newcomerRate limits the requests of all peers together that were met less than ten minutes ago:
// keys cost nothing.
var newcomerRate = wire.Rate{PerSecond: 50, Burst: 500, TotalFactor: 1}

const (
	// maxPerDay is the maximum number of requests of one peer for a subnet per day (UTC), and
	// maxPerDayAll that of all peers: a subnet has one owner at a time.
	maxPerDay, maxPerDayAll = 500, 1000
	// subnetsCounted is the number of subnets of which the requests are counted. Those that were
	// requested least recently are forgotten.
	subnetsCounted = 1 << 14
)

// An allowance limits how much other peers may request. The zero value is ready. It is safe for
// concurrent use. The politeness of package crawl applies in addition.
type allowance struct {
	newcomers wire.Limiter

	mu      sync.Mutex
	subnets *lru.Simple[netip.Prefix, *dayCount] // nil: none yet
}

// dayCount counts the requests for a subnet in one day.
type dayCount struct {
	day    int64
	all    int
	byPeer map[peer.ID]int
}

// take counts a request of a peer for a subnet, or returns why it is refused. old says whether the
// peer has been known for long.
func (a *allowance) take(from peer.ID, old bool, p netip.Prefix, now time.Time) error {
	if !old && !a.newcomers.Allow(newcomerRate, "", now) {
		return errors.New("too many requests of new peers")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subnets == nil {
		a.subnets = lru.NewSimple[netip.Prefix, *dayCount](subnetsCounted, nil)
	}
	today := now.Unix() / int64(24*time.Hour/time.Second)
	n, ok := a.subnets.Get(p)
	if !ok || n.day != today {
		n = &dayCount{day: today, byPeer: map[peer.ID]int{}}
		a.subnets.Add(p, n)
	}
	if n.all >= maxPerDayAll || n.byPeer[from] >= maxPerDay {
		return errors.New("too many requests for this subnet today")
	}
	n.all++
	n.byPeer[from]++
	return nil
}
