package node

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"peerd/internal/backoff"
	"peerd/node/admin"
	"peerd/node/config"
	"peerd/node/traffic"
	"peerd/store"
)

const (
	// While maxWaitingReads connections to web servers wait for bandwidth, no fetch begins;
	// the frontier asks again after trafficRetry.
	maxWaitingReads = 4
	trafficRetry    = 20 * time.Millisecond
	// trafficPoll is how often it is looked at whether the volume is used up.
	trafficPoll = 500 * time.Millisecond
)

// openTraffic prepares the limits on all traffic.
func (n *Node) openTraffic() (err error) {
	n.traffic, err = traffic.New(n.opts.Config.Traffic.Limits(), trafficStore{n.db})
	return err
}

// changeTraffic applies new limits. The peer uses QUIC while there are none. After an error the old
// ones apply.
func (n *Node) changeTraffic(t config.Traffic) error {
	if n.opts.Emulation == nil && !n.opts.Alone {
		if err := n.net.UseQUIC(!t.Limits().Limited()); err != nil {
			return err
		}
	}
	if err := n.traffic.Change(t.Limits()); err != nil {
		return err
	}
	n.trafficConf.Store(&t)
	n.fetcher.SetRates(bodyRates(t))
	return nil
}

// runTraffic closes the connections to other peers when the whole volume is used up, and says so.
func (n *Node) runTraffic(ctx context.Context) error {
	var was [2]bool
	for {
		u := n.traffic.Usage()
		for c, text := range []string{
			"used up the monthly volume; the peer is offline until the month ends",
			"used up the monthly volume for web servers; the peer hands its subnets over",
		} {
			if u.UsedUp[c] != was[c] && u.UsedUp[c] {
				n.log.Warn(text, "bytes", u.Month, "volume", u.Limits.MonthlyVolume,
					"until", u.Ends)
			}
			was[c] = u.UsedUp[c]
		}
		if u.UsedUp[traffic.Control] {
			n.net.Disconnect()
		}
		if backoff.Sleep(ctx, trafficPoll) != nil {
			return nil //nolint:nilerr // the end of ctx is none
		}
	}
}

// whileVolume calls run again and again, with a context that ends when the volume for web servers
// is used up, until ctx ends or run fails.
func (n *Node) whileVolume(ctx context.Context, run func(context.Context) error) error {
	for ctx.Err() == nil {
		if n.traffic.UsedUp(traffic.Crawl) {
			_ = backoff.Sleep(ctx, trafficPoll)
			continue
		}
		if err := n.runWithVolume(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// runWithVolume calls run once, with a context that ends when the volume is used up.
func (n *Node) runWithVolume(ctx context.Context, run func(context.Context) error) error {
	ctx, stop := context.WithCancel(ctx)
	var watcher sync.WaitGroup
	defer watcher.Wait()
	defer stop()
	watcher.Go(func() {
		for !n.traffic.UsedUp(traffic.Crawl) {
			if backoff.Sleep(ctx, trafficPoll) != nil {
				return
			}
		}
		stop()
	})
	return run(ctx)
}

// untilVolume returns how long nothing may be fetched because the volume of the month is used up.
func (n *Node) untilVolume(now time.Time) time.Duration {
	if !n.traffic.UsedUp(traffic.Crawl) {
		return 0
	}
	return max(min(n.traffic.Usage().Ends.Sub(now), pausePoll), time.Millisecond)
}

// volumeState says that the volume of the month is used up; "": it is not.
func (n *Node) volumeState() string {
	u := n.traffic.Usage()
	var what string
	switch {
	case u.UsedUp[traffic.Control]:
		what = "all of it is used up, and the peer is offline"
	case u.UsedUp[traffic.Crawl]:
		what = "the rest is for other peers, and nothing is fetched"
	default:
		return ""
	}
	return fmt.Sprintf("reached the monthly volume of %s (traffic.monthly_volume): %s until %s",
		config.Size(u.Limits.MonthlyVolume), what, u.Ends.Format("2006-01-02 15:04 MST"))
}

// trafficLimits returns the limits on all traffic and their use.
func (n *Node) trafficLimits() []admin.Limit {
	u := n.traffic.Usage()
	rate := admin.Limit{Name: "all traffic", Setting: "traffic.bandwidth", Unit: "bytes/s",
		Used: u.Rate, Max: float64(u.Limits.Bandwidth)}
	if u.Limits.Bandwidth > 0 && u.Waiting {
		rate.Active = true
		rate.Advice = "web servers wait for the bandwidth; raise traffic.bandwidth for more"
	}
	volume := admin.Limit{Name: "monthly volume", Setting: "traffic.monthly_volume",
		Unit: "bytes", Used: float64(u.Month), Max: float64(u.Limits.MonthlyVolume)}
	if why := n.volumeState(); why != "" {
		volume.Active, volume.Blocked = true, true
		volume.Advice = "raise traffic.monthly_volume for more, then: peerd reload"
	}
	return []admin.Limit{rate, volume}
}

// dialControl connects to anything but a web server: another peer, a name server, a collector of
// traces, a device of the local network.
func (n *Node) dialControl(ctx context.Context, network, addr string) (net.Conn, error) {
	return traffic.Dialer{Limiter: n.traffic, Class: traffic.Control}.DialContext(
		ctx, network, addr)
}

// peerTraffic is the overlay.Limiter of a peer.
type peerTraffic struct{ *traffic.Limiter }

// Limit limits a connection to another peer.
func (p peerTraffic) Limit(c net.Conn) net.Conn { return p.Wrap(traffic.Control, c) }

// Closed reports whether the volume of the month is used up.
func (p peerTraffic) Closed() bool { return p.UsedUp(traffic.Control) }

// trafficStore is the traffic.Store of a peer.
type trafficStore struct{ db *store.DB }

// storedMonth is a traffic.Month in the store.
type storedMonth struct {
	Start int64 `cbor:"1,keyasint"` // Unix time
	Bytes int64 `cbor:"2,keyasint"`
}

// Load returns what was saved last.
func (s trafficStore) Load() (traffic.Month, error) {
	m := storedMonth{Start: time.Time{}.Unix()}
	err := s.db.Meta(metaTraffic, &m)
	return traffic.Month{Start: time.Unix(m.Start, 0).UTC(), Bytes: m.Bytes}, err
}

// Save returns when m is on disk.
func (s trafficStore) Save(m traffic.Month) error {
	err := s.db.PutMeta(metaTraffic, storedMonth{Start: m.Start.Unix(), Bytes: m.Bytes})
	if err != nil {
		return err
	}
	return s.db.Sync()
}
