package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// deliverTimeout bounds sending a batch, from dialing to the receipt.
const deliverTimeout = 60 * time.Second

// send sends one batch to its owner. It returns only errors of the store.
func (f *Forwarder) send(ctx context.Context, p batchPlan) error {
	b, err := f.pack(p)
	status := empty
	if err == nil && len(b.Groups) > 0 {
		status, err = f.exchange(ctx, p.owner, b)
	}
	f.withTable(func(t *hostTable) { t.batchDone(p, status, time.Now()) })
	return err
}

// exchange delivers a batch and applies the receipt.
func (f *Forwarder) exchange(ctx context.Context, owner peer.ID, b batch) (outcome, error) {
	began := time.Now()
	r, err := f.deliver(ctx, owner, b)
	if err == nil {
		err = r.check(b)
	}
	tell(f.cfg.Node, owner, true, b, r, began, err)
	if err != nil {
		f.log.Debug("failed to deliver batch", "owner", owner, "err", err)
		return failed, nil
	}
	for _, l := range r.Leases {
		f.cfg.Resolver.Learn(l)
	}
	return delivered, f.applyReceipt(owner, b, r)
}

// pack reads the URLs of a planned batch.
func (f *Forwarder) pack(p batchPlan) (b batch, err error) {
	got := make([]int, len(p.shares))
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		for i, x := range p.shares {
			g := group{Host: x.name, Subnet: x.res.Subnet, Addr: x.res.Addr}
			err := tx.PendingOf(x.name, func(p store.Pending) (bool, error) {
				g.URLs = append(g.URLs, item{URL: p.URL, Depth: p.Depth, From: p.From, Kind: p.Kind,
					Hops: p.Hops, Relayed: p.Finder != 0})
				return len(g.URLs) < x.limit, nil
			})
			if err != nil {
				return err
			}
			if got[i] = len(g.URLs); got[i] > 0 {
				b.Groups = append(b.Groups, g)
			}
		}
		return nil
	})
	if err != nil {
		return b, err
	}
	f.withTable(func(t *hostTable) {
		for i, x := range p.shares {
			if got[i] < x.limit { // the store had fewer than the table's count
				t.setCount(x.name, x.adds, got[i], time.Now())
			}
		}
	})
	return b, nil
}

// deliver sends a batch and waits for the receipt.
func (f *Forwarder) deliver(ctx context.Context, owner peer.ID, b batch) (r receipt, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	c, err := wire.Dial(ctx, f.cfg.Host, owner, receiptLimits, f.cfg.Protocol)
	if err != nil {
		return r, err
	}
	defer func() { c.End(err) }()
	if err = c.SendZ(b); err != nil {
		return r, err
	}
	err = c.Recv(&r)
	return r, err
}

// check reports whether r can be the receipt for b.
func (r receipt) check(b batch) error {
	if len(r.Results) != len(b.Groups) {
		return fmt.Errorf("receipt has %d results, want %d", len(r.Results), len(b.Groups))
	}
	for _, v := range r.Results {
		if v < accepted || v > wrongHome {
			return fmt.Errorf("receipt has unknown result %d", v)
		}
	}
	if len(r.Leases) > min(maxReceiptLeases, len(b.Groups)) {
		return errors.New("receipt has too many leases")
	}
	return nil
}

// applyReceipt deletes the URLs that were accepted. The other hosts are resolved again.
func (f *Forwarder) applyReceipt(owner peer.ID, b batch, r receipt) error {
	var sent []item
	for i, g := range b.Groups {
		if r.Results[i] != accepted {
			continue
		}
		for _, it := range g.URLs {
			sent = append(sent, it)
			// Before deleting, so that a page stored from here on does not add the URL as
			// pending again.
			f.sent.Add(it.URL.Digest(), struct{}{})
		}
	}
	if err := f.deleteSent(sent); err != nil {
		return err
	}
	now := time.Now()
	f.withTable(func(t *hostTable) {
		for i, g := range b.Groups {
			e := t.ofOwner(g.Host, owner)
			if e == nil {
				continue // its owner has changed meanwhile
			}
			switch r.Results[i] {
			case accepted:
				e.fails = 0
			case retryLater:
				t.resolveAfter(e, min(f.cfg.backoff(e.fails), 8*f.cfg.Retry), now)
				e.fails++
			case wrongHome:
				e.rereadHome = true
				t.resolveAfter(e, f.cfg.backoff(e.fails), now)
				e.fails++
			case notOwner:
				// It may not know to which peer it handed the subnet, and our cached lease may be
				// valid for hours.
				t.reads.doubt(doubt{owner, g.Subnet, true})
				t.resolveAfter(e, f.cfg.backoff(e.fails), now)
				e.fails++
			}
		}
	})
	return nil
}
