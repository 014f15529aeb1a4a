package hostmove

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"peerd/overlay/home"
	"peerd/overlay/record"
	"peerd/store"
)

// A host with addresses in several subnets may get a home on each side of a partition.
// Its record is then read again like a lease when a peer is back; the owner of the worse
// one gives the host up.

// SettledFor is the time for which a host is remembered after its home was settled here.
const SettledFor = time.Hour

// maxSettled bounds the hosts remembered as recently settled.
const maxSettled = 1 << 14

// settled is a host with a home that was settled here.
type settled struct {
	since   time.Time
	rereads record.Rereads
}

// Settled notes that a host of ours has got its home now.
func (w *Monitor) Settled(host string) {
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.settled) < maxSettled {
		w.settled[host] = &settled{since: time.Now()}
	}
}

// Sighted notes that our resolver returned an address in the home of a host.
func (w *Monitor) Sighted(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sighted.Add(host, struct{}{})
}

// Reread has the homes read again, a little later than now, that were settled since
// then.
func (w *Monitor) Reread(since, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.settled {
		if !s.since.Before(since) {
			s.rereads.Rearm(now)
		}
	}
}

// toRead returns what reads the homes that are due.
func (w *Monitor) toRead(now time.Time) []func(context.Context) {
	hosts := w.readable(now)
	if len(hosts) == 0 {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		record.Reread(ctx, hosts, w.rehome)
		w.mu.Lock()
		w.reading = false
		w.mu.Unlock()
	}}
}

// readable returns hosts with homes that are to be read now, unless reads are in progress. It
// forgets those that were settled long ago.
func (w *Monitor) readable(now time.Time) (hosts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reading {
		return nil
	}
	for host, s := range w.settled {
		switch {
		case !s.rereads.Planned() && now.Sub(s.since) > SettledFor:
			delete(w.settled, host)
		case len(hosts) < record.ReadsPerTick && s.rereads.Due(now):
			s.rereads.Begin()
			hosts = append(hosts, host)
		}
	}
	w.reading = len(hosts) > 0
	return hosts
}

// rehome reads the home of a host of ours, which is given up if it is another's.
func (w *Monitor) rehome(ctx context.Context, host string) {
	p, _, ours := w.frontier.HostAddr(host)
	if !ours || w.InTransit(host) {
		return
	}
	r, err := w.cfg.Homes.Read(ctx, host)
	switch {
	case err != nil:
		w.log.Debug("failed to read home", "host", host, "err", err)
	case r.Subnet != p && !w.plausible(ctx, host, p, r.Subnet):
		w.log.Warn("kept host: its home record names a subnet where it has no address",
			"host", host, "home", r.Subnet, "by", r.By)
	case r.Subnet != p:
		w.log.Warn("yielded host to better home", "host", host, "home", r.Subnet, "was", p)
		w.relocate(host, &move{From: p, To: r.Subnet, Addr: inside(r.Subnet)})
	}
}

// plausible reports whether a host with the home p may have another one, by this peer's own
// resolver: it has an address there, or none in p. Anybody can write a record.
func (w *Monitor) plausible(ctx context.Context, host string, p, home netip.Prefix) bool {
	found, err := w.lookup(ctx, host)
	if err != nil {
		return false // it is read again
	}
	return slices.ContainsFunc(found, home.Contains) || !slices.ContainsFunc(found, p.Contains)
}

// outdone says that a host was never in the home that its record names, and did
// not move there: two were settled at once, and this is the better one.
func outdone(r home.Record, mv *move) bool { return r.Epoch == 1 && r.Subnet != mv.From }

// giveUp drops a host with a home that belongs to another peer. What is queued is sent
// there as URLs that we found.
func (w *Monitor) giveUp(host string, mv *move) error {
	err := w.cfg.Subnets.Reroute(store.Host{Name: host})
	if err == nil {
		err = w.cfg.DB.DropHost(host)
	}
	if err != nil {
		return err
	}
	w.log.Info("gave up host", "host", host, "from", mv.From, "to", mv.To)
	return forgetMove(w.cfg.DB, host)
}
