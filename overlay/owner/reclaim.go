package owner

import (
	"context"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/lease"
	"peerd/overlay/ownership"
	"peerd/overlay/witness"
)

// reclaim ends an unconfirmed handover to a successor that has disappeared, if the DHT
// has no lease of the successor. The old owner still has all state. If the successor's
// witnesses vote, it continues under the epoch after the one that it granted, which
// beats anything that the successor did. Without their votes it waits as long as for a
// takeover and grants the subnet to itself. If the successor has published its lease,
// the state here becomes a copy of the successor's subnet and is taken over like any
// other.
func (d *departures) reclaim(ctx context.Context, s *subnet, to string) bool {
	id, err := peer.Decode(to)
	if err != nil {
		return false
	}
	d.mu.Lock()
	l, grant := s.lease, s.grant
	d.mu.Unlock()
	var fresh lease.Lease
	var sealed []byte
	switch quiet := d.silence(id, time.Now()); {
	case quiet < d.cfg.Times.Orphan || !d.HasQuorumLease():
		return false
	case quiet < lease.LongSilence+lease.Skew:
		fresh, sealed, err = d.outvote(ctx, l, id, grant)
	default:
		fresh, sealed, err = d.regrant(ctx, l)
	}
	if err != nil {
		d.log.Warn("failed to reclaim subnet", "subnet", s.prefix, "err", err)
		return false
	}
	d.mu.Lock()
	d.step(s, ownership.Event{Kind: ownership.Reclaimed})
	s.lease, s.sealed, s.grant = fresh, sealed, nil
	s.renewAt = time.Now().Add(d.cfg.LeaseTTL / 3)
	d.mu.Unlock()
	if err := d.save(s); err != nil {
		d.log.Error("failed to save subnet state", "subnet", s.prefix, "err", err)
	}
	d.log.Warn("reclaimed subnet from lost successor", "subnet", s.prefix, "successor", to,
		"epoch", fresh.Epoch)
	d.stay(s, to)
	return true
}

// outvote takes over from a successor, which has that grant, by the votes of its witnesses.
func (d *departures) outvote(
	ctx context.Context, l lease.Lease, successor peer.ID, grant []byte,
) (lease.Lease, []byte, error) {
	if d.cfg.Witness == nil {
		return l, nil, errVotes
	}
	theirs := l.Next(successor)
	theirs.Grant = grant
	tally, err := d.ask(ctx, successor, d.cfg.Witness.WitnessSetOf(ctx, successor),
		[]witness.Proposal{{Subnet: l.Subnet, Epoch: theirs.Epoch + 1, Ended: theirs.Digest()}})
	if err != nil {
		return l, nil, err
	}
	t, ok := tally.Takeover(l.Subnet)
	if !ok {
		return l, nil, errVotes
	}
	ctx, cancel := context.WithDeadline(ctx, tally.Until)
	defer cancel()
	return d.cfg.Leases.TakeOver(ctx, theirs, t, l.Proxy)
}

// regrant replaces the grant that the successor did not use by one to this peer.
func (d *departures) regrant(ctx context.Context, l lease.Lease) (lease.Lease, []byte, error) {
	grant, err := l.GrantTo(d.cfg.Self, d.cfg.Leases.Now(), d.cfg.Key)
	if err != nil {
		return l, nil, err
	}
	return d.cfg.Leases.Adopt(ctx, l, grant, l.Proxy)
}
