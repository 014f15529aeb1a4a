package hostmove

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/home"
	"peerd/overlay/hosttransfer"
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
) (done, merge bool, leave func(), err error) {
	if w.frontier == nil {
		return false, false, nil, errors.New("hostmove: hosts are not accepted")
	}
	if r.By != from {
		if l, _, err := w.cfg.Leases.Lookup(ctx, r.From); err != nil || l.Owner != from {
			return false, false, nil, fmt.Errorf("hostmove: %s does not belong to %v", r.Host, from)
		}
	}
	if best, err := w.cfg.Homes.Read(ctx, r.Host); err == nil && home.Better(best, r) > 0 &&
		best.Subnet != r.Subnet {
		return false, false, nil, fmt.Errorf("hostmove: the home of %s is %v", r.Host, best.Subnet)
	}
	leaveSubnet, ok := w.cfg.Subnets.Enter(r.Subnet)
	if !ok {
		return false, false, nil, fmt.Errorf("hostmove: %v is not ours", r.Subnet)
	}
	w.mu.Lock()
	busy := w.moves[r.Host] != nil || w.arriving[r.Host]
	if !busy {
		w.arriving[r.Host] = true
	}
	w.mu.Unlock()
	p, _, here := w.frontier.HostAddr(r.Host)
	if busy || here && p != r.Subnet {
		if !busy {
			w.left(r.Host)
		}
		leaveSubnet()
		return false, false, nil, fmt.Errorf("hostmove: %s is in transit, or in %v", r.Host, p)
	}
	return false, here, func() {
		w.left(r.Host)
		leaveSubnet()
	}, nil
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

func (w receiver) Route(found []store.Pending) error { return w.cfg.Subnets.Route(found) }
