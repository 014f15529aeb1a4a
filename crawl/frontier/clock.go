package frontier

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"peerd/store"
)

// ErrNotYet is returned by Reserve if the clocks do not allow a request in time.
var ErrNotYet = errors.New("frontier: too many requests to this site")

// A clock says when a network may be asked, or an address or a host that is not only asked for
// the queues.
type clock struct {
	active int       // requests in progress
	nextAt time.Time // no request starts before
}

// minSweep is the number of clocks below which idle ones are not removed.
const minSweep = 64

// clocks are clocks by what they belong to. Idle ones are removed from time to time: there are at
// most about twice as many as were in use at once. The zero value is ready.
type clocks[K comparable] struct {
	by      map[K]*clock
	sweepAt int // number of clocks at which idle ones are removed
}

// read returns the clock of k; an idle one if it has none.
func (c *clocks[K]) read(k K) clock {
	if t := c.by[k]; t != nil {
		return *t
	}
	return clock{}
}

// at returns the clock of k, and creates it if necessary. A pointer to a clock may be kept while
// a request is in progress.
func (c *clocks[K]) at(k K, now time.Time) *clock {
	if t := c.by[k]; t != nil {
		return t
	}
	if len(c.by) >= max(c.sweepAt, minSweep) {
		for k, t := range c.by {
			if t.active == 0 && !t.nextAt.After(now) {
				delete(c.by, k)
			}
		}
		c.sweepAt = 2 * len(c.by)
	}
	if c.by == nil {
		c.by = map[K]*clock{}
	}
	t := &clock{}
	c.by[k] = t
	return t
}

// delay has k asked no earlier than at.
func (c *clocks[K]) delay(k K, at, now time.Time) {
	if at.After(now) {
		t := c.at(k, now)
		t.nextAt = later(t.nextAt, at)
	}
}

// networkInterval returns the minimum time between the starts of two requests to a network. It is
// not longer than the gap between two requests to one host.
func (c Config) networkInterval() time.Duration {
	if c.NetworkRate <= 0 {
		return 0
	}
	return min(time.Duration(float64(time.Second)/c.NetworkRate), c.Gap)
}

// networkAt returns when a request to a network may start, and whether too many are in progress.
func (f *Frontier) networkAt(p netip.Prefix) (at time.Time, full bool) {
	t := f.networks.read(p)
	return t.nextAt, f.cfg.NetworkRequests > 0 && t.active >= f.cfg.NetworkRequests
}

// enterLocked counts the start of a request to a network.
func (f *Frontier) enterLocked(p netip.Prefix, now time.Time) {
	t := f.networks.at(p, now)
	t.active++
	t.nextAt = later(t.nextAt, now).Add(f.interval)
}

// leaveLocked counts the end of what enterLocked began. A request that was not sent does not
// delay others.
func (f *Frontier) leaveLocked(p netip.Prefix, sent bool) {
	_, full := f.networkAt(p)
	t := f.networks.by[p]
	t.active--
	if !sent {
		t.nextAt = t.nextAt.Add(-f.interval)
	}
	if s := f.subnets[p]; s != nil && full {
		f.reheapAllLocked(s)
	}
	if f.freed != nil {
		close(f.freed)
		f.freed = nil
	}
}

// postponeLocked moves servers to their time of which the network may not be asked now.
func (f *Frontier) postponeLocked(now time.Time) {
	for c := range f.ready {
		for _, h := range []*readyHeap{&f.ready[c].visited, &f.ready[c].others} {
			for len(*h) > 0 && !(*h)[0].readyAt.After(now) {
				if at, full := f.networkAt((*h)[0].sub.prefix); !full && !at.After(now) {
					break
				}
				f.reheapLocked((*h)[0])
			}
		}
	}
}

// keepClocksLocked keeps the clocks of a server and its hosts, which leave the frontier.
func (f *Frontier) keepClocksLocked(s *server) {
	now := time.Now()
	f.addrs.delay(s.addr, s.restedAt(), now)
	for _, h := range s.hosts {
		f.names.delay(h.name, h.nextAt, now)
	}
}

// A Reservation permits one request outside the queues. End it with exactly one call of Release
// or Cancel.
type Reservation struct {
	f    *Frontier
	host string
	addr netip.Addr
}

// ReserveAddr is Reserve for a connection without a request, which concerns no particular host: not
// the clocks of hosts, but those of the address and its network must allow it.
func (f *Frontier) ReserveAddr(
	ctx context.Context, addr netip.Addr, until time.Time,
) (*Reservation, error) {
	return f.Reserve(ctx, Job{}, addr.String(), addr, until)
}

// Reserve waits until a request that is not in the queues may be sent to a host at an address, and
// takes the clocks of the host, the address and its network, which the queues respect. The host
// need not be in the frontier. The error is ErrNotYet, as soon as it is known that the request may
// not be sent before until, or that of ctx.
//
// The request may be one to another host than that of a job, which goes on. The reservation then
// does not wait for the end of the job if the address or the network is the same: the caller sends
// one request at a time for both, and observes the gap between them. A Job that was not taken with
// Next holds nothing.
func (f *Frontier) Reserve(
	ctx context.Context, j Job, host string, addr netip.Addr, until time.Time,
) (*Reservation, error) {
	addr = addr.Unmap()
	for ctx.Err() == nil {
		now := time.Now()
		at, freed := f.tryReserve(j, host, addr, now)
		switch {
		case at.IsZero():
			return &Reservation{f: f, host: host, addr: addr}, nil
		case at.After(until), freed != nil && !until.After(now):
			return nil, fmt.Errorf("%w: %s at %v", ErrNotYet, host, addr)
		case freed != nil: // unless something ends
			at = until
		}
		t := time.NewTimer(at.Sub(now))
		select {
		case <-ctx.Done():
		case <-freed:
		case <-t.C:
		}
		t.Stop()
	}
	return nil, ctx.Err()
}

// tryReserve takes the clocks if they allow a request now; then at is zero. Otherwise at is when
// they may, or freed is closed when a request has ended.
func (f *Frontier) tryReserve(
	j Job, host string, addr netip.Addr, now time.Time,
) (at time.Time, freed <-chan struct{}) {
	p := store.SubnetOf(addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	at, busy := f.networkAt(p)
	inside := j.host != nil && j.Subnet == p // the job counts as a request to the network
	busy = busy && !inside
	for _, t := range []clock{f.addrs.read(addr), f.names.read(host)} {
		at, busy = later(at, t.nextAt), busy || t.active > 0
	}
	if s := f.servers[addr]; s != nil && (j.host == nil || j.host.srv != s) {
		free, some := s.free(clock{})
		at, busy = later(at, free), busy || !some
	}
	if h := f.hosts[host]; h != nil {
		at, busy = later(at, h.askAt()), busy || h.slot != nil
	}
	if s := f.subnets[p]; s != nil {
		busy = busy || s.taken() && !inside
	}
	switch {
	case at.After(now):
		return at, nil
	case busy:
		if f.freed == nil {
			f.freed = make(chan struct{})
		}
		return now, f.freed
	}
	f.takeLocked(host, addr, now)
	return time.Time{}, nil
}

// TakeAddr is ReserveAddr for a connection that is made whatever the clocks say. What comes after
// it respects it.
func (f *Frontier) TakeAddr(addr netip.Addr) *Reservation {
	r := &Reservation{f: f, host: addr.String(), addr: addr.Unmap()}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.takeLocked(r.host, r.addr, time.Now())
	return r
}

// takeLocked takes the clocks for a request that a Reservation ends.
func (f *Frontier) takeLocked(host string, addr netip.Addr, now time.Time) {
	f.enterLocked(store.SubnetOf(addr), now)
	f.addrs.at(addr, now).active++
	f.names.at(host, now).active++
	f.reserveLocked(host, 1)
	f.reheapAtLocked(addr)
}

// reserveLocked adds n to the reservations of a host, if it is in the frontier. Its queue may be at
// another address.
func (f *Frontier) reserveLocked(host string, n int) {
	if h := f.hosts[host]; h != nil {
		h.reserved += n
		h.orderLocked()
		f.reheapLocked(h.srv)
	}
}

// reheapAtLocked reheaps the server at an address, if there is one.
func (f *Frontier) reheapAtLocked(addr netip.Addr) {
	if s := f.servers[addr]; s != nil {
		f.reheapLocked(s)
	}
}

// Release ends the reservation of a request that was sent: the clocks move as those of a job
// (Frontier.Release).
func (r *Reservation) Release(gap, hostWait time.Duration) {
	r.f.endReservation(r, true, max(gap, r.f.cfg.Gap), hostWait)
}

// Cancel ends the reservation of a request that was not sent. No clock moves.
func (r *Reservation) Cancel() { r.f.endReservation(r, false, 0, 0) }

func (f *Frontier) endReservation(r *Reservation, sent bool, gap, hostWait time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	addr, name := f.addrs.by[r.addr], f.names.by[r.host]
	addr.active--
	name.active--
	if sent {
		addr.nextAt = later(addr.nextAt, now.Add(gap))
		name.nextAt = later(name.nextAt, now.Add(max(gap, hostWait)))
	}
	if h := f.hosts[r.host]; h != nil {
		h.nextAt = later(h.nextAt, name.nextAt)
	}
	f.reserveLocked(r.host, -1)
	f.leaveLocked(store.SubnetOf(r.addr), sent)
	f.reheapAtLocked(r.addr)
}
