package peers

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"peerd/coords"
	"peerd/internal/backoff"
	"peerd/internal/order"
)

// loadInterval is how often announce asks Config.Worker.
const loadInterval = time.Second

// maxPush is the number of peers to which a new beacon is pushed. Other peers get it by
// exchanges. If fewer peers are connected, every new beacon is pushed to all of them; otherwise
// only a beacon that changed, to the nearest maxPushChanged.
const (
	maxPush        = 16
	maxPushChanged = 6
)

// publisher makes the beacons of this peer when they are due, and pushes them. Its times and early
// are used by the goroutine of Service.loop only.
type publisher struct {
	*env
	self      *self
	states    *peerStates
	exchanger *exchanger
	pushes    *semaphore.Weighted

	loadAt     time.Time     // when Config.Worker was asked
	beaconAt   time.Time     // when the last beacon was made
	nextBeacon time.Time     // when the next beacon is due
	early      *rate.Limiter // of beacons that are made before they are due
}

// beaconInterval is the time between two beacons of this peer without a change. It grows with
// the number of peers.
func (s *publisher) beaconInterval() time.Duration {
	shared := time.Duration(s.dir.Len()+1) * s.cfg.Spacing
	return min(max(s.cfg.Interval, shared), maxInterval)
}

// announce reads the load and makes a beacon if one is due or enough has changed. A change is
// pushed to the nearest peers; all other peers get the beacon by exchanges.
func (s *publisher) announce(ctx context.Context, now time.Time) {
	if now.Sub(s.loadAt) < loadInterval {
		return
	}
	s.loadAt = now
	every := s.beaconInterval()
	wait, capacity := s.self.load()
	if now.Sub(s.beaconAt) < max(s.cfg.Gap, minGap(every, s.cfg.Interval)) {
		return
	}
	early := now.Before(s.nextBeacon)
	limited := early && every > s.cfg.Interval
	s.early.SetLimitAt(now, rate.Every(2*every))
	if limited && s.early.TokensAt(now) < 1 {
		return // before the change counts as announced
	}
	changed := s.self.changed(wait) || s.mustRefute(now) || s.self.outdone()
	switch {
	case early && !changed:
		return
	case limited:
		s.early.AllowN(now, 1)
	}
	s.self.suspected.Store(false)
	s.beaconAt, s.nextBeacon = now, now.Add(backoff.Jitter(every))
	if err := s.self.makeBeacon(s.cfg.Clock.Now(), wait, capacity, every); err != nil {
		s.log.Error("failed to sign beacon", "err", err)
		return
	}
	switch near := s.nearest(); {
	case len(near) < maxPush:
		s.pushAll(ctx, near)
	case changed:
		s.pushAll(ctx, near[:maxPushChanged])
	}
}

// earlyBurst is how many beacons in a row may be made before they are due, because of a change,
// in a network that is large enough for a longer interval. One token comes back every two
// intervals, so early beacons add at most half to the regular ones, even where noisy round
// trips keep the coordinate moving.
const earlyBurst = 4

// minGap is the minimum time between two beacons if every is longer than usual.
func minGap(every, usual time.Duration) time.Duration {
	if every <= usual {
		return 0
	}
	return every / 4
}

// nearest returns the at most maxPush nearest connected peers, nearest first.
func (s *publisher) nearest() []peer.ID {
	all := s.networkPeers()
	at := s.self.coordinate()
	distances := make(map[peer.ID]float64, len(all))
	for _, p := range all {
		distances[p] = s.distance(at, p)
	}
	order.SortFunc(all, func(a, b peer.ID) int {
		return cmp.Or(cmp.Compare(distances[a], distances[b]), cmp.Compare(a, b))
	})
	return all[:min(len(all), maxPush)]
}

// distance returns the estimated round trip to p in milliseconds.
func (s *publisher) distance(at coords.Coordinate, p peer.ID) float64 {
	b, ok := s.dir.Get(p)
	if !ok {
		return math.Inf(1)
	}
	return at.Distance(b.At.Unloaded(b.Wait))
}

// pushAll sends the given peers heartbeats without a payload, and does not wait. Those that it
// exchanges other heartbeats with get the beacon by the next one. One that has not answered the
// last push gets it by an exchange.
func (s *publisher) pushAll(ctx context.Context, to []peer.ID) {
	for _, p := range to {
		if ctx.Err() != nil || !s.pushes.TryAcquire(1) {
			return
		}
		if !s.states.beginPush(p) {
			s.pushes.Release(1)
			continue
		}
		s.start(s.pushes, func() {
			defer s.states.endPush(p)
			_, err := s.exchanger.SendHeartbeat(network.WithNoDial(ctx, "beacon"), p, nil)
			if err != nil && ctx.Err() == nil {
				s.log.Debug("failed to push beacon", "peer", p, "err", err)
			}
		})
	}
}

// mustRefute reports whether this peer must make a beacon to refute a suspicion. It does so at
// most once per suspicion and third of an interval.
func (s *publisher) mustRefute(now time.Time) bool {
	return now.Sub(s.beaconAt) >= s.cfg.Interval/3 && s.self.suspected.Load()
}
