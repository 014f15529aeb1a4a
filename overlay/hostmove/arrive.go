package hostmove

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
	"peerd/overlay/lease"
	"peerd/store"
)

// Receiver returns the receiver of hosts that other peers transfer.
func (w *Monitor) Receiver() hosttransfer.Receiver { return receiver{w} }

// receiver is a Monitor in its role of receiving hosts.
type receiver struct{ *Monitor }

// Accept accepts a host with a new home of ours from a peer that may send it: the signer
// of its record, or the owner of its old home.
func (w receiver) Accept(
	ctx context.Context, from peer.ID, r home.Record,
) (done bool, merge hosttransfer.Merge, leave func(), err error) {
	refuse := func(format string, args ...any) (bool, hosttransfer.Merge, func(), error) {
		return false, hosttransfer.NoMerge, nil, fmt.Errorf("hostmove: "+format, args...)
	}
	if w.frontier == nil {
		return refuse("hosts are not accepted")
	}
	if r.By != from {
		if l, _, err := w.cfg.Leases.Lookup(ctx, r.From); err != nil || l.Owner != from {
			return refuse("%s does not belong to %v", r.Host, from)
		}
	}
	best, err := w.cfg.Homes.Read(ctx, r.Host)
	if err == nil && home.Better(best, r) > 0 && best.Subnet != r.Subnet {
		return refuse("the home of %s is %v", r.Host, best.Subnet)
	}
	leaveSubnet, ok := w.cfg.Subnets.Enter(r.Subnet)
	if !ok {
		return refuse("%v is not ours", r.Subnet)
	}
	busy := !w.arrive(r.Host)
	leave = func() {
		if !busy {
			w.left(r.Host)
		}
		leaveSubnet()
	}
	p, _, here := w.frontier.HostAddr(r.Host)
	if busy || here && p != r.Subnet {
		leave()
		return refuse("%s is in transit, or in %v", r.Host, p)
	}
	switch {
	case here && sameMove(from, best, r):
		return true, hosttransfer.NoMerge, leave, nil
	case here:
		if merge, err = w.merge(ctx, from, r, best); err != nil {
			leave()
			return refuse("former owner of %s: %w", r.Host, err)
		}
	}
	return false, merge, leave, nil
}

// sameMove reports whether the best record known is of the move that its signer offers, who
// publishes it when the host has arrived. Arrived learns it, too.
func sameMove(signer peer.ID, best, r home.Record) bool {
	return best.By == signer && r.By == signer && best.Epoch == r.Epoch && best.From == r.From &&
		best.Subnet == r.Subnet
}

// merge returns what is taken from a peer of a host that is here. That others sign and publish
// records, and leases in them, proves nothing. So all is taken only if this peer has fetched the
// host out of a subnet with a silent owner (rescue), by its own record, and the sender owns that.
func (w receiver) merge(
	ctx context.Context, from peer.ID, offered, known home.Record,
) (hosttransfer.Merge, error) {
	ours := offered
	if ours.By != w.cfg.Self {
		ours = known
	}
	if ours.By != w.cfg.Self || !ours.Rescue {
		return hosttransfer.MergeURLs, nil
	}
	l, _, err := w.cfg.Leases.Refresh(ctx, ours.From)
	switch {
	case errors.Is(err, lease.ErrUnowned):
	case err != nil:
		return hosttransfer.NoMerge, err
	case l.Owner == from:
		return hosttransfer.MergeAll, nil
	}
	return hosttransfer.MergeURLs, nil
}

func (w receiver) left(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.arriving, host)
}

// Arrived makes a host ours. That its record is published too is for those who ask
// the DHT; who brought it does the same.
func (w receiver) Arrived(ctx context.Context, h store.Host, sealed []byte, at time.Time) error {
	if _, err := w.cfg.Homes.Learn(sealed); err != nil {
		return err
	}
	w.frontier.AdoptHost(h, at)
	w.log.Info("received host", "host", h.Name, "to", h.Subnet)
	if _, err := w.cfg.Homes.Announce(ctx, sealed); err != nil {
		w.log.Warn("failed to publish new home", "host", h.Name, "err", err)
	}
	return nil
}

func (w receiver) Safe(ctx context.Context, p netip.Prefix) bool {
	return w.cfg.Subnets.Safe(ctx, p)
}

func (w receiver) Route(found []store.Pending) error { return w.cfg.Subnets.Route(found) }

// AcceptFetched believes a peer that was apart, and owned the subnet of the host as well.
func (w receiver) AcceptFetched(
	from peer.ID, host string, lost []byte,
) (leave func(), err error) {
	if w.frontier == nil {
		return nil, errors.New("hostmove: hosts are not accepted")
	}
	theirs, err := lease.OpenLease(lost)
	if err != nil {
		return nil, err
	}
	leaveSubnet, ok := w.cfg.Subnets.Enter(theirs.Subnet)
	if !ok {
		return nil, fmt.Errorf("hostmove: %v is not ours", theirs.Subnet)
	}
	sealed, _ := w.cfg.Subnets.Lease(theirs.Subnet)
	ours, err := lease.OpenLease(sealed)
	switch p, _, here := w.frontier.HostAddr(host); {
	case err != nil:
	case !here || p != theirs.Subnet:
		err = fmt.Errorf("hostmove: %s is not here in %v", host, theirs.Subnet)
	case theirs.Owner != from || !w.cfg.Leases.ActedApart(ours, theirs):
		err = fmt.Errorf("hostmove: %v is not known to have owned %v", from, theirs.Subnet)
	case !w.arrive(host):
		err = fmt.Errorf("hostmove: %s is in transit", host)
	}
	if err != nil {
		leaveSubnet()
		return nil, err
	}
	return func() {
		w.left(host)
		leaveSubnet()
	}, nil
}

// arrive notes that a host is on its way here, and returns false if it is on its way already.
func (w receiver) arrive(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.moves[host] != nil || w.arriving[host] || w.adding[host] > 0 {
		return false
	}
	w.arriving[host] = true
	return true
}

// WithoutRequests takes the host out of the frontier while fn runs.
func (w receiver) WithoutRequests(ctx context.Context, host string, fn func() error) error {
	ctx, cancel := context.WithTimeout(ctx, taskTimeout)
	defer cancel()
	at, err := w.frontier.EvictHost(ctx, host)
	if err != nil {
		return err
	}
	err = fn()
	var h *store.Host
	again := w.cfg.DB.View(func(tx *store.Tx) (err error) {
		h, err = tx.Host(host)
		return err
	})
	if again == nil {
		w.frontier.AdoptHost(*h, at)
	}
	return errors.Join(err, again)
}
