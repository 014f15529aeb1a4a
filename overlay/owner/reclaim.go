package owner

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/witness"
	"peerd/store"
)

// reclaim ends a handover in doubt whose heir has vanished, while the DHT has no lease
// of its. The old owner still has everything. If the heir's witnesses say that it is
// dead, it goes on under the epoch after the one that it granted: what the heir may
// have made of that is beaten. Without their votes it waits for as long as is enough for
// a takeover, and grants the subnet to itself. An heir that has published its lease is
// another matter: then what is here becomes a copy of its subnet, and is taken over
// like any.
func (m *Manager) reclaim(ctx context.Context, s *subnet, to string) bool {
	id, err := peer.Decode(to)
	if err != nil {
		return false
	}
	m.mu.Lock()
	l := s.lease
	m.mu.Unlock()
	var fresh lease.Lease
	var sealed []byte
	switch quiet := time.Since(m.lastHeard(id)); {
	case quiet < m.cfg.Times.Orphan || !m.Right():
		return false
	case quiet < lease.LongSilence+lease.Skew:
		fresh, sealed, err = m.outvote(ctx, l, id)
	default:
		fresh, sealed, err = m.regrant(ctx, l)
	}
	if err != nil {
		m.log.Warn("subnet not reclaimed", "subnet", s.prefix, "err", err)
		return false
	}
	m.mu.Lock()
	s.lease, s.sealed, s.phase, s.grant = fresh, sealed, store.PhaseOwned, nil
	s.renewAt = time.Now().Add(m.cfg.LeaseTTL / 3)
	m.mu.Unlock()
	if err := m.save(s); err != nil {
		m.log.Error("subnet state not written", "subnet", s.prefix, "err", err)
	}
	m.log.Warn("a subnet is taken back from an heir that vanished", "subnet", s.prefix, "heir", to, "epoch", fresh.Epoch)
	m.stay(s, to)
	return true
}

// outvote takes over from an heir, by the votes of its witnesses.
func (m *Manager) outvote(ctx context.Context, l lease.Lease, heir peer.ID) (lease.Lease, []byte, error) {
	if m.cfg.Witness == nil {
		return l, nil, errVotes
	}
	epoch := l.Epoch + 2
	tally, err := m.ask(ctx, heir, m.cfg.Witness.PanelOf(ctx, heir), []witness.Step{{Subnet: l.Subnet, Epoch: epoch}})
	if err != nil {
		return l, nil, err
	}
	t, ok := tally.Takeover(l.Subnet)
	if !ok {
		return l, nil, errVotes
	}
	ctx, cancel := context.WithDeadline(ctx, tally.Until)
	defer cancel()
	return m.cfg.Leases.TakeOver(ctx, l.Subnet, epoch, t, l.Proxy)
}

// regrant makes the grant that the heir did not use one to ourselves.
func (m *Manager) regrant(ctx context.Context, l lease.Lease) (lease.Lease, []byte, error) {
	grant, err := lease.SealGrant(lease.Grant{
		Subnet: l.Subnet, From: m.cfg.Self, To: m.cfg.Self, Epoch: l.Epoch + 1, Issued: time.Now(),
	}, m.cfg.Key)
	if err != nil {
		return l, nil, err
	}
	return m.cfg.Leases.Adopt(ctx, l.Subnet, l.Epoch+1, grant, l.Proxy)
}
