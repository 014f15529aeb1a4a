package homing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/carry"
	"peerd/overlay/home"
	"peerd/store"
)

// Heir returns what takes in the hosts that others bring.
func (w *Watch) Heir() carry.Heir { return heir{w} }

// heir is a Watch that hosts are brought to.
type heir struct{ *Watch }

// Welcome lets a host come whose new home is ours, from who may send it: who signed
// its record, or owns its old home.
func (w heir) Welcome(ctx context.Context, from peer.ID, r home.Record) (done, merge bool, leave func(), err error) {
	if w.frontier == nil {
		return false, false, nil, errors.New("homing: no single hosts are taken")
	}
	if r.By != from {
		if l, _, err := w.cfg.Leases.Lookup(ctx, r.From); err != nil || l.Owner != from {
			return false, false, nil, fmt.Errorf("homing: %s is not %v's to send", r.Host, from)
		}
	}
	if best, err := w.cfg.Homes.Read(ctx, r.Host); err == nil && home.Better(best, r) > 0 && best.Subnet != r.Subnet {
		return false, false, nil, fmt.Errorf("homing: the home of %s is %v", r.Host, best.Subnet)
	}
	leaveSubnet, ok := w.cfg.Subnets.Enter(r.Subnet)
	if !ok {
		return false, false, nil, fmt.Errorf("homing: %v is not ours now", r.Subnet)
	}
	w.mu.Lock()
	busy := w.moves[r.Host] != nil || w.arriving[r.Host]
	if !busy {
		w.arriving[r.Host] = true
	}
	w.mu.Unlock()
	p, _, here := w.frontier.Place(r.Host)
	if busy || here && p != r.Subnet {
		if !busy {
			w.left(r.Host)
		}
		leaveSubnet()
		return false, false, nil, fmt.Errorf("homing: %s is on its way, or in %v", r.Host, p)
	}
	return false, here, func() {
		w.left(r.Host)
		leaveSubnet()
	}, nil
}

func (w heir) left(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.arriving, host)
}

// Arrived makes a host ours. That its record is published too is for those who ask
// the DHT; who brought it does the same.
func (w heir) Arrived(ctx context.Context, h store.Host, sealed []byte, at time.Time) error {
	if _, err := w.cfg.Homes.Learn(sealed); err != nil {
		return err
	}
	w.frontier.Enter(h, at)
	w.log.Info("host has come", "host", h.Name, "to", h.Subnet)
	if _, err := w.cfg.Homes.Announce(ctx, sealed); err != nil {
		w.log.Warn("new home not published yet", "host", h.Name, "err", err)
	}
	return nil
}

func (w heir) Route(found []store.Pending) error { return w.cfg.Route(found) }
