package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/forward"
	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/store"
)

var _ forward.Resolver = (*Manager)(nil)

// errLeaving says that a subnet is on its way to another peer; who asks again
// learns to which.
var errLeaving = errors.New("owner: the subnet is leaving")

// Resolve says whose a host is. A host of ours is in the frontier when it
// returns. Errors wrap forward.ErrGone when its URLs are to be dropped.
func (m *Manager) Resolve(ctx context.Context, host string, hint netip.Addr) (forward.Resolution, error) {
	if m.homes.Transit(host) {
		return forward.Resolution{}, fmt.Errorf("%w: %s", errLeaving, host)
	}
	if m.cfg.Frontier.Owns(host) {
		return forward.Resolution{Kind: forward.Own}, nil
	}
	addrs, err := m.addresses(ctx, host, hint)
	if err != nil {
		return forward.Resolution{}, err
	}
	p, err := m.guess(ctx, host, addrs)
	if err != nil {
		return forward.Resolution{}, err
	}
	for range 3 { // guessed home, settled home, and once more if it changed hands
		r, again, err := m.resolveIn(ctx, host, p, addrs)
		if err != nil || !again {
			return r, err
		}
		p = r.Subnet
	}
	return forward.Resolution{}, fmt.Errorf("owner: the home of %s does not come to rest", host)
}

// guess returns what is taken for the home of a host: what was heard of it, else
// where it is. Homes move: when it is in a subnet of ours, and was heard to be
// elsewhere, that is asked again.
func (m *Manager) guess(ctx context.Context, host string, addrs []netip.Addr) (netip.Prefix, error) {
	p, settled := m.cfg.Homes.Cached(host)
	if !settled {
		return store.SubnetOf(addrs[0]), nil
	}
	if _, recent := m.cfg.Homes.Recent(host); recent || m.Live(p) {
		return p, nil
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return m.Live(store.SubnetOf(a)) }) {
		return p, nil
	}
	r, err := m.cfg.Homes.Read(ctx, host)
	if errors.Is(err, home.ErrUnsettled) {
		return p, nil
	}
	return r.Subnet, err
}

// Elsewhere says that a host's home is known to be another subnet than that one of
// ours, and none of ours.
func (m *Manager) Elsewhere(host string, p netip.Prefix) bool {
	q, recent := m.cfg.Homes.Recent(host)
	return recent && q != p && !m.Live(q) && !m.cfg.Frontier.Owns(host)
}

// Astray reads a host's home anew.
func (m *Manager) Astray(ctx context.Context, host string) error {
	_, err := m.cfg.Homes.Read(ctx, host)
	return err
}

// Refresh reads anew who owns a subnet, and says whether it is another than owner.
func (m *Manager) Refresh(ctx context.Context, p netip.Prefix, owner peer.ID) (changed bool, err error) {
	l, sealed, err := m.cfg.Leases.Refresh(ctx, p)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		return true, nil // to be claimed
	case err != nil:
		return false, err
	}
	m.beaten(l)
	if l.Owner == owner {
		m.orphaned(l, sealed)
	}
	return l.Owner != owner, nil
}

// Alive says whether names can be looked up at all.
func (m *Manager) Alive(ctx context.Context) bool { return m.homes.Alive(ctx) }

// addresses returns where a host may be dialled. The finder's hint comes first
// if it is in a subnet of ours: names that resolve differently here and there
// would else be sent to and fro. It is never taken for a host that does not
// exist.
func (m *Manager) addresses(ctx context.Context, host string, hint netip.Addr) ([]netip.Addr, error) {
	all, err := m.cfg.Resolve(ctx, host)
	switch {
	case errors.Is(err, ErrNoHost):
		return nil, fmt.Errorf("%w: %w", forward.ErrGone, err)
	case err != nil:
		return nil, err
	case !hint.IsValid():
	case m.Live(store.SubnetOf(hint)):
		all = append([]netip.Addr{hint}, all...)
	default:
		all = append(slices.Clone(all), hint)
	}
	var ok []netip.Addr
	for _, a := range all {
		if err = m.cfg.Allowed(a); err == nil {
			ok = append(ok, a.Unmap())
		}
	}
	if len(ok) == 0 && err != nil {
		return nil, fmt.Errorf("%w: %s: %w", forward.ErrGone, host, err)
	}
	if len(ok) == 0 {
		return nil, fmt.Errorf("%w: %s has no address", forward.ErrGone, host)
	}
	return ok, nil
}

// resolveIn looks a host up under the supposition that its home is p. again
// says that the home is another: Resolution.Subnet.
func (m *Manager) resolveIn(ctx context.Context, host string, p netip.Prefix, addrs []netip.Addr) (r forward.Resolution, again bool, err error) {
	r = forward.Resolution{Subnet: p}
	for _, a := range addrs {
		if p.Contains(a) {
			r.Addr = a
			break
		}
	}
	m.mu.Lock()
	s := m.subnets[p]
	leaving := s != nil && s.leaving()
	m.mu.Unlock()
	switch {
	case leaving:
		return r, false, fmt.Errorf("%w: %v", errLeaving, p)
	case s != nil:
		return m.settleHome(ctx, host, s, r)
	}
	l, sealed, err := m.cfg.Leases.Lookup(ctx, p)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		r.Kind = forward.Unowned
		return r, false, nil
	case err != nil:
		return r, false, err
	case l.Owner == m.cfg.Self: // ours by the DHT, and our disk does not know: we lost it
		if err := m.restore(l, sealed); err != nil {
			return r, false, err
		}
		if err := m.begin(l, sealed); err != nil {
			return r, false, err
		}
		return r, true, nil
	}
	if _, ok := m.cfg.Homes.Known(host); ok && !r.Addr.IsValid() && time.Since(l.Expires) > home.Silence && m.Live(store.SubnetOf(addrs[0])) {
		m.homes.Lost(host, p, sealed)
	}
	r.Kind, r.Owner = forward.Foreign, l.Owner
	return r, false, nil
}

// settleHome makes a host of one of our subnets ours, unless its home turns
// out to be elsewhere.
func (m *Manager) settleHome(ctx context.Context, host string, s *subnet, r forward.Resolution) (forward.Resolution, bool, error) {
	p, err := m.cfg.Homes.Settle(ctx, host, r.Subnet)
	if err != nil {
		return r, false, err
	}
	if p != r.Subnet {
		r.Subnet = p
		return r, true, nil
	}
	if !r.Addr.IsValid() {
		// The home was settled when its names were others: it moves when that stays
		// so.
		m.homes.Lost(host, p, nil)
		return r, false, fmt.Errorf("owner: %s has no address in its home %v", host, p)
	}
	if !m.enter(s) {
		return r, false, fmt.Errorf("%w: %v", errLeaving, p)
	}
	defer s.adding.Done()
	r.Kind = forward.Own
	m.homes.Settled(host)
	return r, false, m.cfg.Frontier.AddHost(host, p, r.Addr)
}

// enter lets a host be added to a subnet, unless it is leaving or has left: it
// does not go before the caller is done with s.adding.
func (m *Manager) enter(s *subnet) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subnets[s.prefix] != s || s.leaving() {
		return false
	}
	s.adding.Add(1)
	return true
}
