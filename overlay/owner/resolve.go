package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/overlay/forward"
	"peerd/overlay/lease"
	"peerd/store"
)

var _ forward.Resolver = (*Manager)(nil)

// ErrAlone is returned by Claim while this peer knows others and reaches none.
var ErrAlone = errors.New("owner: no other peer in reach; not claiming")

// errLeaving says that a subnet is on its way to another peer; who asks again
// learns to which.
var errLeaving = errors.New("owner: the subnet is leaving")

// Resolve says whose a host is. A host of ours is in the frontier when it
// returns. Errors wrap forward.ErrGone when its URLs are to be dropped.
func (m *Manager) Resolve(ctx context.Context, host string, hint netip.Addr) (forward.Resolution, error) {
	if m.cfg.Frontier.Owns(host) {
		return forward.Resolution{Kind: forward.Own}, nil
	}
	addrs, err := m.addresses(ctx, host, hint)
	if err != nil {
		return forward.Resolution{}, err
	}
	p, settled := m.cfg.Homes.Cached(host)
	if !settled {
		p = store.SubnetOf(addrs[0])
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
		if err := m.begin(l, sealed); err != nil {
			return r, false, err
		}
		return r, true, nil
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
		// The home was settled when its names were others; moving it is not
		// possible yet, so its URLs are given up after some tries.
		return r, false, fmt.Errorf("%w: %s has no address in its home %v", forward.ErrUnresolved, host, p)
	}
	if !m.enter(s) {
		return r, false, fmt.Errorf("%w: %v", errLeaving, p)
	}
	defer s.adding.Done()
	r.Kind = forward.Own
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

// Claim makes this peer the owner of an unowned subnet, or learns who is. When
// it returns nil the subnet has an owner.
func (m *Manager) Claim(ctx context.Context, p netip.Prefix) error {
	if !m.cfg.MayClaim() {
		return ErrAlone
	}
	l, sealed, err := m.cfg.Leases.Claim(ctx, p)
	var beaten *lease.BeatenError
	switch {
	case errors.As(err, &beaten):
		return nil // somebody owns it
	case err != nil:
		return err
	}
	return m.begin(l, sealed)
}

// begin enters a subnet that a lease of ours gives us.
func (m *Manager) begin(l lease.Lease, sealed []byte) error {
	s := &subnet{
		prefix: l.Subnet, phase: store.PhaseDeciding, lease: l, sealed: sealed, since: time.Now(),
		exclude: map[string]bool{}, renewAt: time.Now().Add(m.cfg.LeaseTTL / 3), idleSince: time.Now(),
	}
	m.mu.Lock()
	if m.subnets[l.Subnet] != nil {
		m.mu.Unlock()
		return nil
	}
	m.subnets[l.Subnet] = s
	m.cfg.Frontier.Single(l.Subnet, true)
	m.cfg.Frontier.Resume(l.Subnet)
	m.mu.Unlock()
	if err := m.save(s); err != nil {
		return err
	}
	m.log.Info("subnet claimed", "subnet", l.Subnet, "epoch", l.Epoch)
	_, err := m.next(s, true) // a strategy that needs no estimation decides now
	return err
}

// Receive says whether this peer takes URLs of a subnet now; moving, that they
// should be offered again soon; sealed is the lease of who else takes them, if
// that is known.
func (m *Manager) Receive(p netip.Prefix) (ok, moving bool, sealed []byte) {
	m.mu.Lock()
	s := m.subnets[p]
	if s != nil {
		defer m.mu.Unlock()
		return !s.leaving(), s.leaving(), nil
	}
	m.mu.Unlock()
	sealed, _ = m.cfg.Leases.Sealed(p)
	return false, false, sealed
}

// Learn takes in a lease that another peer sent.
func (m *Manager) Learn(sealed []byte) {
	l, err := m.cfg.Leases.Learn(sealed)
	if err != nil {
		m.log.Debug("a foreign lease was refused", "err", err)
		return
	}
	m.beaten(l)
}
