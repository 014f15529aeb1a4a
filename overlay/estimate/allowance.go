package estimate

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"peerd/internal/lru"
	"peerd/overlay/wire"
)

// newcomerRate limits the requests of all peers together that were met less than ten minutes ago:
// keys cost nothing.
var newcomerRate = wire.Rate{PerSecond: 50, Burst: 500, TotalFactor: 1}

// A subnet belongs to who claims it first, and its owner can ask all peers of the network. So each
// of them accepts few requests for a subnet at once, and later so few that all of them together
// send less than one a second. An honest owner chooses from a few estimations, and later has one
// page in fifty fetched by others.
const (
	// atOnce is how many requests for a subnet are accepted one after the other.
	atOnce = 8
	// interval is the time after which another one is accepted, of a network of at most 32 peers;
	// perPeer is that time divided by the number of peers in a larger one, up to maxInterval.
	interval, perPeer, maxInterval = 40 * time.Second, 1250 * time.Millisecond, 20 * time.Minute
	// apart is the least time between two requests for a subnet, which is that between two scouts
	// of an owner (coords/assign). A second request waits for it, a third one is refused.
	apart = 4 * time.Second
	// subnetsCounted is the number of subnets of which the requests are counted. Those that were
	// requested least recently are forgotten.
	subnetsCounted = 1 << 14
)

// An allowance limits how much other peers may request. The zero value is ready. It is safe for
// concurrent use. The politeness of package crawl applies in addition.
type allowance struct {
	newcomers wire.Limiter

	mu      sync.Mutex
	subnets *lru.Simple[netip.Prefix, used] // nil: none yet
}

// used is what the requests for a subnet have used up: until when, and when the next one may be
// carried out.
type used struct{ until, next time.Time }

// take counts a request for a subnet and returns how long it waits, or why it is refused. old says
// whether the peer that asks has been known for long, and peers is the size of the network.
func (a *allowance) take(
	old bool, p netip.Prefix, peers int, now time.Time,
) (wait time.Duration, err error) {
	if !old && !a.newcomers.Allow(newcomerRate, "", now) {
		return 0, errors.New("too many requests of new peers")
	}
	each := min(max(interval, time.Duration(peers)*perPeer), maxInterval)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.subnets == nil {
		a.subnets = lru.NewSimple[netip.Prefix, used](subnetsCounted, nil)
	}
	u, _ := a.subnets.Get(p)
	if u.until.Before(now) {
		u.until = now
	}
	wait = max(0, u.next.Sub(now))
	if u.until = u.until.Add(each); u.until.Sub(now) > atOnce*each || wait > apart {
		return 0, errors.New("too many requests for this subnet")
	}
	u.next = now.Add(wait + apart)
	a.subnets.Add(p, u)
	return wait, nil
}
