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

// Consider says whether this peer takes a subnet that another offers.
func (m *Manager) Consider(from peer.ID, o handover.Offer) ([]byte, error) {
	if o.Subnet != store.SubnetOf(o.Subnet.Addr()) {
		return nil, fmt.Errorf("%v is no subnet", o.Subnet)
	}
	m.mu.Lock()
	s := m.subnets[o.Subnet]
	var have []byte
	if s != nil && s.lease.Epoch >= o.Epoch {
		have = s.sealed
	}
	m.mu.Unlock()
	if have != nil {
		return have, nil
	}
	if s != nil {
		return nil, errors.New("the subnet is mine")
	}
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
	if best.Owner == m.cfg.Self && best.Epoch >= o.Epoch {
		return nil, nil // adopted once, and the disk lost since: take it again
	}
	if best.Owner != from {
		return nil, fmt.Errorf("the subnet is owned by %s since epoch %d", best.Owner, best.Epoch)
	}
	return nil, m.cfg.Allowed(inside(o.Subnet))
}

// inside returns an address of p that is not its network address.
func inside(p netip.Prefix) netip.Addr { return p.Addr().Next() }

// Adopt makes this peer the owner of a subnet whose state has arrived.
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
	l, sealed, err := m.cfg.Leases.Adopt(ctx, o.Subnet, o.Epoch, grant, old.Proxy)
	var beaten *lease.BeatenError
	switch {
	case errors.As(err, &beaten):
		return nil, err
	case err != nil: // the DHT is slow; the lease is ours all the same, and is renewed soon
		now := time.Now()
		l = lease.Lease{
			Subnet: o.Subnet, Owner: m.cfg.Self, Epoch: o.Epoch, Issued: now, Expires: now.Add(m.cfg.LeaseTTL),
			Proxy: old.Proxy, Grant: grant,
		}
		if sealed, err = lease.SealLease(l, m.cfg.Key); err != nil {
			return nil, err
		}
		if l, err = lease.OpenLease(sealed); err != nil {
			return nil, err
		}
	}
	s, err := fromRecord(store.Subnet{
		Prefix: o.Subnet, Phase: store.PhaseOwned, Lease: sealed, Epoch: l.Epoch, Since: time.Now(),
		Evidence: o.Evidence, Estimations: o.Estimations,
	})
	if err != nil {
		return nil, err
	}
	s.renewAt = time.Now().Add(m.cfg.LeaseTTL / 6)
	rec, err := s.record()
	if err != nil {
		return nil, err
	}
	err = m.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(store.Counters{HandoversIn: 1})
		return tx.PutSubnet(rec)
	})
	if err == nil {
		err = m.cfg.DB.Sync()
	}
	if err != nil {
		return nil, err
	}
	wait := min(max(o.Wait, 0), time.Hour)
	m.mu.Lock()
	m.subnets[o.Subnet] = s
	m.mu.Unlock()
	m.cfg.Frontier.Adopt(o.Subnet, hosts, time.Now().Add(wait))
	m.log.Info("subnet taken over", "subnet", o.Subnet, "from", from, "epoch", o.Epoch, "hosts", len(hosts))
	m.cfg.Moved(o.Subnet)
	return sealed, nil
}
