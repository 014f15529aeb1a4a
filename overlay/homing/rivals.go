package homing

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"peerd/overlay/home"
	"peerd/store"
)

// A host with addresses in several subnets may be given one home at each side of a
// cut. Its record is then read again like a lease, when somebody is back; the
// owner of the worse one gives the host up.

// Kept is how long a host whose home was settled here is remembered as such.
const Kept = time.Hour

const (
	// maxSettled bounds the hosts that are remembered as settled of late.
	maxSettled = 1 << 14
	// readsAtOnce bounds the homes read again at a time, and readsPerTick those
	// of one Config.Tick: 50 a second.
	readsAtOnce  = 8
	readsPerTick = 25
	readTimeout  = 20 * time.Second
)

// readAfter is when a home is read again: once for rivals of the same moment, and
// twice afterwards for a DHT whose parts have to find each other first.
var readAfter = [...]time.Duration{4 * time.Second, 30 * time.Second, 90 * time.Second}

// spread is d, or up to a quarter more.
func spread(d time.Duration) time.Duration { return d + rand.N(d/4+1) }

// settled is a host whose home was settled here.
type settled struct {
	since  time.Time
	readAt time.Time // zero: not to be read
	reads  int
}

// Settled notes that a host of ours has got its home now.
func (w *Watch) Settled(host string) {
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.settled) >= maxSettled {
		for name, s := range w.settled {
			if now.Sub(s.since) > Kept {
				delete(w.settled, name)
			}
		}
		if len(w.settled) >= maxSettled {
			return
		}
	}
	w.settled[host] = &settled{since: now}
}

// Reread has the homes read again, a little later than now, that were settled since
// then.
func (w *Watch) Reread(since, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.settled {
		if !s.since.Before(since) && s.readAt.IsZero() {
			s.readAt, s.reads = now.Add(spread(readAfter[0])), 0
		}
	}
}

// toRead returns what reads the homes that are due.
func (w *Watch) toRead(now time.Time) []func(context.Context) {
	hosts := w.readable(now)
	if len(hosts) == 0 {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		var g errgroup.Group
		g.SetLimit(readsAtOnce)
		for _, host := range hosts {
			g.Go(func() error { w.rehome(ctx, host); return nil })
		}
		_ = g.Wait() // there are none
		w.mu.Lock()
		w.reading = false
		w.mu.Unlock()
	}}
}

// readable returns hosts whose homes are to be read now, unless others still are.
func (w *Watch) readable(now time.Time) (hosts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reading {
		return nil
	}
	for host, s := range w.settled {
		if len(hosts) >= readsPerTick {
			break
		}
		if s.readAt.IsZero() || s.readAt.After(now) {
			continue
		}
		hosts = append(hosts, host)
		before := readAfter[s.reads]
		s.readAt = time.Time{}
		if s.reads++; s.reads < len(readAfter) {
			s.readAt = now.Add(spread(readAfter[s.reads] - before))
		}
	}
	w.reading = len(hosts) > 0
	return hosts
}

// rehome reads the home of a host of ours, which is given up if it is another's.
func (w *Watch) rehome(ctx context.Context, host string) {
	p, _, ours := w.frontier.Place(host)
	if !ours || w.Transit(host) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	r, err := w.cfg.Homes.Read(ctx, host)
	switch {
	case err != nil:
		w.log.Debug("a home was not read again", "host", host, "err", err)
	case r.Subnet != p:
		w.log.Warn("host yields to a better home", "host", host, "home", r.Subnet, "was", p)
		w.relocate(host, &move{From: p, To: r.Subnet, Addr: inside(r.Subnet)})
	}
}

// outdone says that a host was never in the home that its record names, and did
// not move there: two were settled at once, and this is the better one.
func outdone(r home.Record, mv *move) bool { return r.Epoch == 1 && r.Subnet != mv.From }

// giveUp drops a host whose home is another's. What is queued goes there as URLs that
// we found.
func (w *Watch) giveUp(host string, mv *move) error {
	err := w.cfg.Subnets.PutAside(store.Host{Name: host})
	if err == nil {
		err = w.cfg.DB.DropHost(host)
	}
	if err != nil {
		return err
	}
	w.log.Info("host given up", "host", host, "from", mv.From, "to", mv.To)
	return w.forgetMove(host)
}
