package homing

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"
)

const (
	// answers is how much longer the span is for a host that goes on answering at
	// its old address: it may be that our resolver is never shown that one.
	answers     = 6
	longestSpan = 24 * time.Hour
)

// toLook returns the look-ups that are due.
func (w *Watch) toLook(now time.Time) (tasks []func(context.Context)) {
	w.mu.Lock()
	var names []string
	held := map[string]time.Time{}
	for name, silent := range w.doubted {
		if len(names) < tasksAtOnce && !w.looking[name] {
			delete(w.doubted, name)
			if a := w.absent[name]; a != nil {
				if a.silent = a.silent || silent; a.silent {
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
		w.frontier.Hold(name, until)
	}
	if len(names) < free {
		names = append(names, w.frontier.Stale(now.Add(-w.cfg.Pace.Every), free-len(names))...)
	}
	for i, name := range names {
		w.mu.Lock()
		skip := w.looking[name] || len(w.looking) >= tasksAtOnce
		if !skip {
			w.looking[name] = true
		} else if i < doubted && len(w.doubted) < maxDoubts {
			w.doubted[name] = true
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

// look looks a host up anew, and sees to what follows: it is where it was, at
// another address of its home, or has left.
func (w *Watch) look(ctx context.Context, host string, silent bool) {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	a := w.absenceOf(host)
	p, addr, ours := w.frontier.Place(host)
	if !ours {
		if a == nil {
			return
		}
		p = a.home
	}
	if _, err := netip.ParseAddr(host); err == nil || w.Transit(host) {
		return
	}
	found, err := w.lookup(ctx, host)
	if err != nil {
		w.log.Debug("host not looked up anew", "host", host, "err", err)
		w.postpone(host)
		return
	}
	in := slices.DeleteFunc(slices.Clone(found), func(x netip.Addr) bool { return !p.Contains(x) })
	switch {
	case len(in) > 0:
		w.atHome(host, addr, in, ours)
		return
	case ours && a == nil:
		if silent { // its URLs would be spent while the record is read
			w.frontier.Hold(host, time.Now().Add(readTimeout))
		}
		// The record may say already where it is: it was moved while this peer was
		// away, or when it was handed over.
		if r, err := w.cfg.Homes.Read(ctx, host); err == nil && r.Subnet != p {
			w.relocate(host, &move{From: p, To: r.Subnet, Addr: within(r.Subnet, found)})
			return
		}
	}
	w.away(host, p, found, silent)
}

// absenceOf returns what is known of a host that seems to have left; nil if it
// does not.
func (w *Watch) absenceOf(host string) *absence {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.absent[host]
}

// lookup returns the addresses that a name has now and that may be dialled.
func (w *Watch) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	all, err := w.cfg.Look(ctx, host)
	if err != nil {
		return nil, err
	}
	var ok []netip.Addr
	for _, a := range all {
		if w.cfg.Allowed(a) == nil {
			ok = append(ok, a.Unmap())
		}
	}
	if len(ok) == 0 {
		return nil, errors.New("homing: no address that may be dialled")
	}
	return ok, nil
}

// postpone has an absent host looked up again later.
func (w *Watch) postpone(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a := w.absent[host]; a != nil {
		a.next = time.Now().Add(w.cfg.Pace.pause())
	}
}

// atHome notes that a host has addresses in its home, and has one of them dialled.
func (w *Watch) atHome(host string, addr netip.Addr, in []netip.Addr, ours bool) {
	w.mu.Lock()
	delete(w.absent, host)
	w.sighted.Add(host, struct{}{})
	w.mu.Unlock()
	if !ours || slices.Contains(in, addr) {
		return
	}
	done, err := w.frontier.Readdress(host, in[0])
	switch {
	case err != nil:
		w.log.Warn("host keeps its old address", "host", host, "err", err)
	case done:
		w.log.Info("host has a new address in its home", "host", host, "addr", in[0])
	default: // being asked
		w.mu.Lock()
		w.doubted[host] = false
		w.mu.Unlock()
	}
}

// away notes that a look-up showed no address in a host's home, and moves the host
// when that has been so for long enough.
func (w *Watch) away(host string, p netip.Prefix, found []netip.Addr, silent bool) {
	now := time.Now()
	epoch := uint64(1)
	if r, ok := w.cfg.Homes.Known(host); ok {
		epoch = r.Epoch
	}
	w.mu.Lock()
	a := w.absent[host]
	if a == nil {
		if len(w.absent) >= maxDoubts {
			w.mu.Unlock()
			return
		}
		a = newAbsence(p, now)
		w.absent[host] = a
	}
	a.looks++
	a.silent = a.silent || silent
	a.next = now.Add(w.cfg.Pace.pause())
	a.note(found)
	_, sighted := w.sighted.Get(host)
	span := w.span(epoch, a.silent || a.lease != nil, sighted)
	leaves := span > 0 && a.looks >= w.cfg.Pace.Looks && now.Sub(a.since) >= span
	silent, spared := a.silent, w.spared(a)
	if leaves {
		delete(w.absent, host)
	}
	w.mu.Unlock()
	if leaves {
		to := a.target(w.live)
		w.relocate(host, &move{From: p, To: to, Addr: a.found[to], Lease: a.lease})
		return
	}
	if silent {
		w.frontier.Hold(host, spared)
	}
}

// spared is until when a silent host is not asked, as its URLs would be spent on an
// address that is dead: a little longer than until its next look-up.
func (w *Watch) spared(a *absence) time.Time { return a.next.Add(w.cfg.Pace.pause() / 4) }

// span is how long a host must have been away for it to move; 0 is never. A host
// that answers moves only if our resolver has shown its home before: else it is
// geo-DNS that others are told of.
func (w *Watch) span(epoch uint64, silent, sighted bool) time.Duration {
	d := w.cfg.Pace.Span
	switch {
	case silent:
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
