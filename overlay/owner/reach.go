package owner

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"peerd/store"
)

const (
	// reachTimeout bounds the choice of a home among several subnets.
	reachTimeout = 3 * time.Second
	// reachedRecently is how long an address that has answered is not connected to again for
	// that: many hosts share the addresses of a provider.
	reachedRecently = 5 * time.Minute
)

// reachableHome returns the subnet in which a host without a home gets one: that of the first
// address that accepts a connection. A host with addresses in one subnet only is not connected
// to, and if no address answers, the home is likely.
func (w *reachability) reachableHome(
	ctx context.Context, host string, likely netip.Prefix, addrs []netip.Addr,
) netip.Prefix {
	if !inSeveral(likely, addrs) {
		return likely
	}
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	a, ok := w.reach(ctx, host, alternate(likely, addrs), reachedRecently)
	if !ok {
		return likely
	}
	if p := store.SubnetOf(a); p != likely {
		w.log.Info("chose another home: the first does not answer", "host", host, "home", p,
			"instead", likely)
		return p
	}
	return likely
}

// inSeveral reports whether a host that is in subnet p has addresses in others.
func inSeveral(p netip.Prefix, addrs []netip.Addr) bool {
	return slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !p.Contains(a) })
}

// alternate returns addrs with those in the subnet first at the beginning, and the address
// families in turn from the other one on (RFC 8305, section 4): often all addresses of a family are
// dead.
func alternate(first netip.Prefix, addrs []netip.Addr) []netip.Addr {
	var in []netip.Addr
	var rest [2][]netip.Addr // other family, same family
	for _, a := range addrs {
		same := 0
		if a.Is4() == first.Addr().Is4() {
			same = 1
		}
		switch {
		case slices.Contains(in, a):
		case first.Contains(a):
			in = append(in, a)
		default:
			rest[same] = append(rest[same], a)
		}
	}
	for i := 0; len(rest[0])+len(rest[1]) > 0; i = 1 - i {
		if len(rest[i]) > 0 {
			in, rest[i] = append(in, rest[i][0]), rest[i][1:]
		}
	}
	return in
}

// reachNow returns the first of some addresses of a host that accepts a connection now; false if
// none does, or if the host asked to be left alone.
func (w *reachability) reachNow(
	ctx context.Context, host string, addrs []netip.Addr,
) (netip.Addr, bool) {
	if err := w.mayConnect(host); err != nil {
		w.log.Debug("did not connect to host", "host", host, "err", err)
		return netip.Addr{}, false
	}
	return w.reach(ctx, host, addrs, 0)
}

var errAsksToWait = errors.New("owner: the host asked to wait")

// mayConnect returns an error, which is errAsksToWait or one of the store, if no connection to a
// host may be opened now.
func (w *reachability) mayConnect(host string) error {
	return w.cfg.DB.View(func(tx *store.Tx) error {
		h, err := tx.Host(host)
		if err == nil && h.Health.AsksToWait(time.Now()) {
			return errAsksToWait
		}
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
}

// reach is Config.Reach for a host, at the port of one of its URLs.
func (w *reachability) reach(
	ctx context.Context, host string, addrs []netip.Addr, recent time.Duration,
) (netip.Addr, bool) {
	if w.cfg.Reacher == nil {
		return netip.Addr{}, false
	}
	u, err := w.urlOf(host)
	if err != nil {
		w.log.Debug("failed to find a URL of a host", "host", host, "err", err)
		return netip.Addr{}, false
	}
	return w.cfg.Reacher.Reach(ctx, u, addrs, recent)
}

var errNoURL = errors.New("owner: the host has no queued or pending URL")

// urlOf returns a URL of a host that waits here.
func (w *reachability) urlOf(host string) (u store.URL, err error) {
	err = w.cfg.DB.View(func(tx *store.Tx) error {
		err := tx.Queue(host, nil, func(e store.Entry) (bool, error) {
			u = e.URL
			return false, nil
		})
		if err != nil || u != "" {
			return err
		}
		return tx.PendingOf(host, func(p store.Pending) (bool, error) {
			u = p.URL
			return false, nil
		})
	})
	if err == nil && u == "" {
		err = errNoURL
	}
	return u, err
}
