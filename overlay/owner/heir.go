package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/store"
)

var _ handover.Heir = (*Manager)(nil)

// Consider says whether this peer takes a subnet that another offers. A lease
// is returned instead when the subnet has come to this peer already, or gone
// on from here.
func (m *Manager) Consider(from peer.ID, o handover.Offer) ([]byte, error) {
	l, err := lease.OpenLease(o.Lease)
	if err != nil {
		return nil, err
	}
	if l.Owner != from || l.Subnet != o.Subnet || l.Epoch+1 != o.Epoch {
		return nil, errors.New("the lease does not fit the offer")
	}
	best, err := m.cfg.Leases.Learn(o.Lease)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	s := m.subnets[o.Subnet]
	var have []byte
	if s != nil && s.lease.Epoch >= o.Epoch {
		have = s.sealed
	}
	m.mu.Unlock()
	switch {
	case have != nil:
		return have, nil
	case m.draining.Load():
		return nil, errDraining
	case m.full.Load():
		return nil, errDiskFull
	case s != nil:
		m.beaten(best)
		return nil, errors.New("the subnet is mine, or was until now")
	case best.Owner == m.cfg.Self && best.Epoch >= o.Epoch:
		return nil, nil // adopted once, and the disk lost since: take it again
	case best.Epoch >= o.Epoch:
		if sealed, ok := m.cfg.Leases.Sealed(o.Subnet); ok {
			return sealed, nil
		}
		fallthrough
	case best.Owner != from:
		return nil, fmt.Errorf("the subnet is owned by %s since epoch %d", best.Owner, best.Epoch)
	}
	if err := m.cfg.Allowed(inside(o.Subnet)); err != nil {
		return nil, err
	}
	return nil, m.takes(o.Subnet)
}

// inside returns an address of p that is not its network address.
func inside(p netip.Prefix) netip.Addr { return p.Addr().Next() }

// maxEstimations bounds what an offer says of the estimations before it.
const maxEstimations = 1 << 20

// Adopt makes this peer the owner of a subnet whose state has arrived. It
// returns this peer's lease, or an error that leaves the subnet with the owner.
func (m *Manager) Adopt(ctx context.Context, from peer.ID, o handover.Offer, grant []byte, hosts []store.Host) ([]byte, error) {
	old, err := lease.OpenLease(o.Lease)
	if err != nil {
		return nil, err
	}
	g, err := lease.OpenGrant(grant)
	if err != nil {
		return nil, err
	}
	if g.From != from || g.To != m.cfg.Self || g.Subnet != o.Subnet || g.Epoch != o.Epoch {
		return nil, errors.New("owner: the grant does not fit the offer")
	}
	if m.Live(o.Subnet) { // since Consider; asked again, the owner is told
		return nil, errors.New("owner: the subnet is ours meanwhile")
	}
	// On the disk first, then in the DHT: who finds the lease there, this peer
	// after a crash included, must find the queue here.
	l, sealed, err := m.selfMade(o, old, grant)
	if err != nil {
		return nil, err
	}
	what := store.Subnet{Prefix: o.Subnet, Evidence: o.Evidence, Estimations: o.Estimations}
	if len(o.Evidence) == 0 { // from an owner that has lost it: what it showed us before
		if was, _, err := m.copyOf(o.Subnet); err == nil {
			what.Evidence, what.Estimations = was.Evidence, was.Estimations
		}
	}
	s, err := m.taken(what, l, sealed)
	if err != nil {
		return nil, err
	}
	s.prefer = append([]string{from.String()}, s.prefer...) // it lacks nothing
	s.renewAt = time.Now()                                  // publishes the lease
	if err := m.enrol(s, o.Pos, store.Counters{HandoversIn: 1}); err != nil {
		return nil, err
	}
	m.admit(s, hosts, time.Now().Add(min(max(o.Wait, 0), time.Hour)))
	m.log.Info("subnet received", "subnet", o.Subnet, "from", from, "epoch", o.Epoch, "hosts", len(hosts))
	return sealed, nil
}

// selfMade is an adopted subnet's lease that the DHT has not seen. The Registry
// learns it, so that others are shown it, and may know a better one.
func (m *Manager) selfMade(o handover.Offer, old lease.Lease, grant []byte) (l lease.Lease, sealed []byte, err error) {
	now := time.Now()
	l = lease.Lease{
		Subnet: o.Subnet, Owner: m.cfg.Self, Epoch: o.Epoch, Issued: now, Expires: now.Add(m.cfg.LeaseTTL),
		Proxy: old.Proxy, Grant: grant,
	}
	if sealed, err = lease.SealLease(l, m.cfg.Key); err != nil {
		return l, nil, err
	}
	best, err := m.cfg.Leases.Learn(sealed)
	switch {
	case err != nil:
		return l, nil, err
	case best.Owner != m.cfg.Self:
		return l, nil, fmt.Errorf("owner: the subnet is owned by %s since epoch %d", best.Owner, best.Epoch)
	}
	l, err = lease.OpenLease(sealed)
	return l, sealed, err
}
