package hostmove

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"peerd/overlay/record"
)

const (
	// answers is how much longer the span is for a host that goes on answering at
	// its old address: it may be that our resolver is never shown that one.
	answers     = 6
	longestSpan = 24 * time.Hour
	// reachTimeout bounds the attempt to connect to the addresses of a host in a place.
	reachTimeout = 3 * time.Second
)

// toLook returns the look-ups that are due.
func (w *Monitor) toLook(now time.Time) (tasks []func(context.Context)) {
	w.mu.Lock()
	var names []string
	held := map[string]time.Time{}
	for name, isSilent := range w.suspects {
		if len(names) < tasksAtOnce && !w.looking[name] {
			delete(w.suspects, name)
			if a := w.absent[name]; a != nil {
				if isSilent && a.cause == renamed {
					a.cause = silent
				}
				if a.cause != renamed {
					held[name] = w.spared(a)
				}
				continue // looked up when it is due
			}
			names = append(names, name)
		}
	}
	doubted := len(names)
	for name, a := range w.absent {
		if !a.next.After(now) && !w.looking[name] {
			names = append(names, name)
		}
	}
	free := tasksAtOnce - len(w.looking)
	w.mu.Unlock()
	for name, until := range held {
		w.frontier.DelayHost(name, until)
	}
	if len(names) < free {
		names = append(names, w.frontier.StaleHosts(now.Add(-w.cfg.Pace.Every), free-len(names))...)
	}
	for i, name := range names {
		w.mu.Lock()
		skip := w.looking[name] || len(w.looking) >= tasksAtOnce
		if !skip {
			w.looking[name] = true
		} else if i < doubted && len(w.suspects) < maxSuspects {
			w.suspects[name] = true
		}
		w.mu.Unlock()
		if !skip {
			tasks = append(tasks, func(ctx context.Context) {
				w.look(ctx, name, i < doubted)
				w.mu.Lock()
				delete(w.looking, name)
				w.mu.Unlock()
			})
		}
	}
	return tasks
}

// look looks a host up again and acts on the result: it is where it was, at another
// address in its home, or has left.
func (w *Monitor) look(ctx context.Context, host string, isSilent bool) {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	a := w.absenceOf(host)
	p, addr, ours := w.frontier.HostAddr(host)
	if !ours {
		if a == nil {
			return
		}
		if a.lease == nil && !w.live(a.home) { // it left with its home
			w.forgetAbsence(host)
			return
		}
		p = a.home
	}
	if _, err := netip.ParseAddr(host); err == nil || w.InTransit(host) {
		return
	}
	found, err := w.lookup(ctx, host)
	if err != nil {
		w.log.Debug("failed to look up host", "host", host, "err", err)
		w.postpone(host)
		return
	}
	in := slices.DeleteFunc(slices.Clone(found), func(x netip.Addr) bool { return !p.Contains(x) })
	switch {
	case len(in) > 0:
		if !ours || !isSilent && a == nil || !w.tryElsewhere(ctx, host, p, found, in) {
			w.atHome(host, addr, in, ours)
		}
		return
	case ours && a == nil:
		if isSilent { // its URLs would be spent while the record is read
			w.frontier.DelayHost(host, time.Now().Add(record.ReadTimeout))
		}
		// The record may say already where it is: it was moved while this peer was
		// away, or when it was handed over.
		if r, err := w.cfg.Homes.Read(ctx, host); err == nil && r.Subnet != p {
			w.relocate(host, &move{From: p, To: r.Subnet, Addr: within(r.Subnet, found)})
			return
		}
	}
	why := renamed
	if isSilent {
		why = silent
	}
	w.away(host, p, found, why)
}

// tryElsewhere tries to connect to a silent host: to the addresses in its home p, then to the
// others that were found. It reports whether only one of those accepts a connection.
func (w *Monitor) tryElsewhere(
	ctx context.Context, host string, p netip.Prefix, found, in []netip.Addr,
) bool {
	out := slices.DeleteFunc(slices.Clone(found), p.Contains)
	if len(out) == 0 || w.reaches(ctx, host, in).IsValid() {
		return false
	}
	to := w.reaches(ctx, host, out)
	if !to.IsValid() { // it is down, or this peer's network is
		return false
	}
	w.away(host, p, []netip.Addr{to}, unreachable)
	return true
}

// reaches returns the first of addrs that accepts a connection; an invalid one if none does.
func (w *Monitor) reaches(ctx context.Context, host string, addrs []netip.Addr) netip.Addr {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	a, ok := w.cfg.Network.Reach(ctx, host, addrs)
	if !ok {
		return netip.Addr{}
	}
	return a
}

// absenceOf returns what is known of a host that seems to have left; nil if it
// does not.
func (w *Monitor) absenceOf(host string) *absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.absent[host]
}

func (w *Monitor) forgetAbsence(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.absent, host)
}

// lookup returns the addresses that a name has now and that may be dialled.
func (w *Monitor) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	all, err := w.cfg.Network.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var ok []netip.Addr
	for _, a := range all {
		if w.cfg.Guard.Check(a) == nil {
			ok = append(ok, a.Unmap())
		}
	}
	if len(ok) == 0 {
		return nil, errors.New("hostmove: no allowed address")
	}
	return ok, nil
}

// postpone has an absent host looked up again later. One with a name that has not resolved for
// long is forgotten: many of those never resolve again.
func (w *Monitor) postpone(host string) {
	now := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a := w.absent[host]; {
	case a == nil:
	case now.Sub(a.told) > longestSpan:
		delete(w.absent, host)
	default:
		a.next = now.Add(w.cfg.Pace.pause(a.cause))
	}
}

// atHome notes that a host has addresses in its home, and has one of them dialled.
func (w *Monitor) atHome(host string, addr netip.Addr, in []netip.Addr, ours bool) {
	w.mu.Lock()
	delete(w.absent, host)
	w.sighted.Add(host, struct{}{})
	w.mu.Unlock()
	if !ours || slices.Contains(in, addr) {
		return
	}
	done, err := w.frontier.SetHostAddr(host, in[0])
	switch {
	case err != nil:
		w.log.Warn("failed to change host address", "host", host, "err", err)
	case done:
		w.log.Info("changed host address", "host", host, "addr", in[0])
	default: // being asked
		w.mu.Lock()
		w.suspects[host] = false
		w.mu.Unlock()
	}
}

// away notes that a host seems to have left its home, and moves the host when that has been so
// for long enough. A host that answers and never moves is not remembered.
func (w *Monitor) away(host string, p netip.Prefix, found []netip.Addr, why cause) {
	now := time.Now()
	epoch := uint64(1)
	if r, ok := w.cfg.Homes.Known(host); ok {
		epoch = r.Epoch
	}
	w.mu.Lock()
	a := w.absent[host]
	if a == nil {
		if len(w.absent) >= maxSuspects {
			w.mu.Unlock()
			return
		}
		a = newAbsence(p, now)
		w.absent[host] = a
	}
	a.looks, a.told = a.looks+1, now
	a.because(why)
	_, sighted := w.sighted.Get(host)
	span := w.span(epoch, a.cause, sighted)
	if span == 0 {
		delete(w.absent, host)
		w.mu.Unlock()
		return
	}
	a.next = now.Add(w.cfg.Pace.pause(a.cause))
	a.note(found)
	leaves := a.looks >= w.cfg.Pace.Lookups && now.Sub(a.since) >= span
	held, spared := a.cause != renamed, w.spared(a)
	if leaves {
		delete(w.absent, host)
	}
	w.mu.Unlock()
	if leaves {
		to := a.target(w.live)
		w.relocate(host, &move{From: p, To: to, Addr: a.found[to], Lease: a.lease})
		return
	}
	if held {
		w.frontier.DelayHost(host, spared)
	}
}

// spared is until when a silent host is not asked, as its URLs would be spent on an
// address that is dead: a little longer than until its next look-up.
func (w *Monitor) spared(a *absence) time.Time { return a.next.Add(w.cfg.Pace.pause(a.cause) / 4) }

// span is how long a host must have been away for it to move; 0 is never. A host
// that answers moves only if our resolver has shown its home before: else it is
// geo-DNS that others are told of.
func (w *Monitor) span(epoch uint64, why cause, sighted bool) time.Duration {
	d := w.cfg.Pace.span(why)
	switch {
	case why != renamed:
	case sighted:
		d *= answers
	default:
		return 0
	}
	for ; epoch > 1 && d < longestSpan; epoch-- {
		d *= 4
	}
	return min(d, longestSpan)
}

// within returns one of found in p, or any address there: the next look-up
// corrects it.
func within(p netip.Prefix, found []netip.Addr) netip.Addr {
	for _, a := range found {
		if p.Contains(a) {
			return a
		}
	}
	return inside(p)
}

// inside is an address of a subnet.
func inside(p netip.Prefix) netip.Addr { return p.Addr().Next() }
