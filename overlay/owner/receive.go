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
	"peerd/overlay/wire"
	"peerd/store"
)

// offerRate is how often a peer may offer a subnet of which there is no copy of its own here. An
// owner copies a subnet before it offers it, so that this is an offer that is repeated; others
// would only have the DHT read.
var offerRate = wire.Rate{PerSecond: 1, Burst: 32, TotalFactor: 8}

var errTooManyOffers = errors.New("owner: too many offers of subnets without a copy")

var _ handover.Successor = (*arrivals)(nil)

// AcceptOffer reports whether this peer takes a subnet that another peer offers. It
// returns a lease instead if the subnet has already come to this peer or moved on from
// here. Nothing is promised before there is a copy: the offer comes again then.
func (a *arrivals) AcceptOffer(
	ctx context.Context, from peer.ID, o handover.Offer,
) ([]byte, error) {
	if err := checkOffer(from, o); err != nil {
		return nil, err
	}
	copied := a.copied(from, o.Subnet)
	if !copied && !a.limiter.Allow(offerRate, from, time.Now()) {
		return nil, errTooManyOffers
	}
	best, err := a.confirm(ctx, o.Lease)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	s := a.subnets[o.Subnet]
	var have []byte
	if s != nil && s.lease.Epoch >= o.Epoch {
		have = s.sealed
	}
	a.mu.Unlock()
	switch {
	case have != nil:
		return have, nil
	case a.draining.Load():
		return nil, errDraining
	case a.diskFull.Load():
		return nil, errDiskFull
	case s != nil:
		a.leases.beaten(best)
		return nil, errors.New("the subnet is mine, or was until now")
	case best.Owner == a.cfg.Self && best.Epoch >= o.Epoch:
		return nil, nil // adopted once, and the disk lost since: take it again
	case best.Epoch >= o.Epoch:
		if sealed, ok := a.cfg.Leases.Sealed(o.Subnet); ok {
			return sealed, nil
		}
		fallthrough
	case best.Owner != from:
		return nil, fmt.Errorf("the subnet is owned by %s since epoch %d", best.Owner, best.Epoch)
	case !copied:
		return nil, nil
	}
	if err := a.cfg.Guard.Check(inside(o.Subnet)); err != nil {
		return nil, err
	}
	return nil, a.takes(o.Subnet)
}

// checkOffer returns an error if the lease of an offer is not that of the subnet by the sender.
func checkOffer(from peer.ID, o handover.Offer) error {
	l, err := lease.OpenLease(o.Lease)
	if err != nil {
		return err
	}
	if l.Owner != from || l.Subnet != o.Subnet || l.Epoch+1 != o.Epoch {
		return errors.New("the lease does not match the offer")
	}
	return nil
}

// copied reports whether a copy of a subnet of that owner is kept here.
func (a *arrivals) copied(owner peer.ID, p netip.Prefix) bool {
	h, ok := a.cfg.Replicas.Copy(p)
	return ok && h.Owner == owner
}

// confirmFor bounds the time in which a lease is looked up that a peer has sent.
const confirmFor = 10 * time.Second

// confirm returns the best lease known of the subnet of a lease that a peer has sent, by the DHT
// if nothing else is known.
func (a *arrivals) confirm(ctx context.Context, sealed []byte) (lease.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, confirmFor)
	defer cancel()
	return a.cfg.Leases.Confirm(ctx, sealed)
}

// inside returns an address of p that is not its network address.
func inside(p netip.Prefix) netip.Addr { return p.Addr().Next() }

// Bounds of what an offer says of the estimations before it and of the crawl delay.
const (
	maxEstimations = 1 << 20
	maxWait        = time.Hour
)

// TakeOwnership makes this peer the owner of a subnet with state that has arrived. It
// returns this peer's lease, or an error that leaves the subnet with the owner.
func (a *arrivals) TakeOwnership(
	ctx context.Context, from peer.ID, o handover.Offer, grant []byte,
) ([]byte, error) {
	old, err := lease.OpenLease(o.Lease)
	if err != nil {
		return nil, err
	}
	g, err := lease.OpenGrant(grant)
	if err != nil {
		return nil, err
	}
	if g.From != from || g.To != a.cfg.Self || g.Subnet != o.Subnet || g.Epoch != o.Epoch {
		return nil, errors.New("owner: the grant does not match the offer")
	}
	if a.Live(o.Subnet) { // since AcceptOffer; asked again, the owner is told
		return nil, errors.New("owner: the subnet is already ours")
	}
	if err := a.promoteLinks(o.Subnet); err != nil {
		return nil, err
	}
	hosts, err := a.cfg.DB.HostsOf(o.Subnet)
	if err != nil {
		return nil, err
	}
	// On the disk first, then in the DHT: who finds the lease there, this peer
	// after a crash included, must find the queue here.
	l, sealed, err := a.selfMade(o, old, grant)
	if err != nil {
		return nil, err
	}
	what := store.Subnet{Prefix: o.Subnet, Evidence: o.Evidence, Estimations: o.Estimations}
	if len(o.Evidence) == 0 { // from an owner that has lost it: what it showed us before
		if was, _, err := a.copyOf(o.Subnet); err == nil {
			what.Evidence, what.Estimations = was.Evidence, was.Estimations
		}
	}
	s, err := a.taken(what, l, sealed)
	if err != nil {
		return nil, err
	}
	s.prefer = append([]string{from.String()}, s.prefer...) // it lacks nothing
	if o.Replica {
		s.replicas = []replicaPeer{{id: from, well: s.since, synced: true,
			until: s.since.Add(a.cfg.Times.Lost)}}
	}
	s.renewAt = time.Now() // publishes the lease
	if err := a.enrol(s, o.Pos, store.Counters{HandoversIn: 1}); err != nil {
		return nil, err
	}
	a.admit(s, hosts, time.Now().Add(min(max(o.Wait, 0), maxWait)))
	a.log.Info("received subnet", "subnet", o.Subnet, "from", from, "epoch", o.Epoch,
		"hosts", len(hosts))
	return sealed, nil
}

// selfMade is an adopted subnet's lease that the DHT has not seen. The Registry
// learns it, so that others are shown it, and may know a better one.
func (a *arrivals) selfMade(
	o handover.Offer, old lease.Lease, grant []byte,
) (l lease.Lease, sealed []byte, err error) {
	now := a.cfg.Leases.Now()
	l = old.Next(a.cfg.Self)
	l.Issued, l.Expires, l.Grant = now, now.Add(a.cfg.LeaseTTL), grant
	if sealed, err = lease.SealLease(l, a.cfg.Key); err != nil {
		return l, nil, err
	}
	best, err := a.cfg.Leases.Hold(sealed, time.Now())
	switch {
	case err != nil:
		return l, nil, err
	case best.Owner != a.cfg.Self:
		return l, nil, fmt.Errorf("owner: the subnet is owned by %s since epoch %d", best.Owner,
			best.Epoch)
	}
	l, err = lease.OpenLease(sealed)
	return l, sealed, err
}

// takes says why this peer refuses a subnet that is offered to it.
func (a *arrivals) takes(p netip.Prefix) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	if now.Before(a.reachability.refused[p]) {
		return errors.New("this peer cannot reach its servers")
	}
	return a.balance.balancer.accept(now, p)
}
