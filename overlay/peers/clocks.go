package peers

import (
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
)

// clocksKept is with how many peers the clock is compared: those that introduced themselves last.
// clockFor is how long that counts.
const (
	clocksKept = 32
	clockFor   = 2 * maxInterval
)

// clocks compares the clock of this peer with those of the peers that introduce themselves. Beacons
// that are refused because of their date count, too.
type clocks struct {
	log  *slog.Logger
	most time.Duration // above which beacons are refused

	mu    sync.Mutex
	shown []shownClock // of different peers, oldest first
	wrong bool         // the last state that was logged
}

// shownClock is what the beacon of a peer showed: by how much its clock was ahead of this one's.
type shownClock struct {
	peer  peer.ID
	ahead time.Duration
	at    time.Time // by time.Now
}

// see takes into account a beacon that has just arrived from its maker, when the clock of this peer
// showed date. The beacon may have been made up to an interval, which varies by a quarter, ago.
func (c *clocks) see(b Beacon, date time.Time) {
	ahead := b.Time.Sub(date)
	if ahead < 0 {
		ahead = min(0, ahead+b.Interval+b.Interval/4)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shown = slices.DeleteFunc(c.shown, func(s shownClock) bool { return s.peer == b.Peer })
	c.shown = append(c.shown, shownClock{b.Peer, ahead, time.Now()})
	c.shown = c.shown[max(0, len(c.shown)-clocksKept):]
	median, n := c.median()
	if wrong := median.Abs() > c.most; wrong != c.wrong {
		c.wrong = wrong
		if wrong {
			c.log.Warn("found that the clocks of other peers differ; set the clock of this machine",
				"ahead", median.Round(time.Second), "peers", n)
		} else {
			c.log.Info("found that the clocks of other peers agree", "peers", n)
		}
	}
}

// median returns by how much the clocks of other peers are ahead of this one, and how many there
// are. Of two medians it is the one that is nearer to 0. c.mu must be held.
func (c *clocks) median() (ahead time.Duration, peers int) {
	var all []time.Duration
	for _, s := range c.shown {
		if time.Since(s.at) < clockFor {
			all = append(all, s.ahead)
		}
	}
	if len(all) == 0 {
		return 0, 0
	}
	slices.Sort(all)
	low, high := all[(len(all)-1)/2], all[len(all)/2]
	if low.Abs() < high.Abs() {
		return low, len(all)
	}
	return high, len(all)
}

// Clocks returns by how much the clocks of other peers are ahead of this one's (the median), and
// from how many peers that is known: those that introduced themselves in the last 20 minutes. It
// is wrong if it is more than Config.Skew, in either direction: then this peer and the others
// refuse each other's beacons.
func (in *intake) Clocks() (ahead time.Duration, peers int, wrong bool) {
	in.clocks.mu.Lock()
	defer in.clocks.mu.Unlock()
	ahead, peers = in.clocks.median()
	return ahead, peers, ahead.Abs() > in.clocks.most
}
