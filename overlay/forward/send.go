package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// deliverTimeout bounds a batch from the dial to the receipt.
const deliverTimeout = 60 * time.Second

// send takes one batch to an owner. Its error is one of the store.
func (f *Forwarder) send(ctx context.Context, p parcel) error {
	b, err := f.pack(p)
	how := empty
	if err == nil && len(b.Groups) > 0 {
		how, err = f.exchange(ctx, p.owner, b)
	}
	f.with(func(b *book) { b.sent(p, how, time.Now()) })
	return err
}

// exchange delivers a packed batch and does what the receipt says.
func (f *Forwarder) exchange(ctx context.Context, owner peer.ID, b batch) (fate, error) {
	r, err := f.deliver(ctx, owner, b)
	if err == nil {
		err = r.check(b)
	}
	if err != nil {
		f.log.Debug("batch not delivered", "owner", owner, "err", err)
		return failed, nil
	}
	for _, l := range r.Leases {
		f.cfg.Resolver.Learn(l)
	}
	if err := f.settle(owner, b, r); err != nil {
		return delivered, err
	}
	f.disowned(ctx, owner, b, r)
	return delivered, nil
}

// disowned reads anew who owns what a peer says is not its own: one that has
// forgotten whom it gave a subnet cannot tell, and our lease of it may be good for
// hours.
func (f *Forwarder) disowned(ctx context.Context, owner peer.ID, b batch, r receipt) {
	seen := map[netip.Prefix]bool{}
	for i, g := range b.Groups {
		if r.Verdicts[i] == notOwner && !seen[g.Subnet] && len(seen) < maxReceiptLeases {
			seen[g.Subnet] = true
			f.refresh(ctx, owner, g.Subnet)
		}
	}
}

// pack reads what waits for the hosts of a parcel.
func (f *Forwarder) pack(p parcel) (b batch, err error) {
	got := make([]int, len(p.parts))
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		for i, x := range p.parts {
			g := group{Host: x.name, Subnet: x.res.Subnet, Addr: x.res.Addr}
			err := tx.Deferred(x.name, func(p store.Pending) (bool, error) {
				g.URLs = append(g.URLs, item{URL: p.URL, Depth: p.Depth, From: p.From, Kind: p.Kind, Hops: p.Hops})
				return len(g.URLs) < x.most, nil
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
	f.with(func(b *book) {
		for i, x := range p.parts {
			if got[i] < x.most { // the store had less than we thought
				b.counted(x.name, x.news, got[i], time.Now())
			}
		}
	})
	return b, nil
}

// deliver sends a batch and waits for its receipt.
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

// check says whether r can be the receipt for b.
func (r receipt) check(b batch) error {
	if len(r.Verdicts) != len(b.Groups) {
		return fmt.Errorf("a receipt with %d verdicts for %d hosts", len(r.Verdicts), len(b.Groups))
	}
	for _, v := range r.Verdicts {
		if v < accepted || v > astray {
			return fmt.Errorf("a receipt with the verdict %d", v)
		}
	}
	if len(r.Leases) > min(maxReceiptLeases, len(b.Groups)) {
		return errors.New("a receipt with too many leases")
	}
	return nil
}

// settle does what the receipt says: what was accepted is forgotten, everything
// else goes back to be resolved.
func (f *Forwarder) settle(owner peer.ID, b batch, r receipt) error {
	var urls []store.URL
	for i, g := range b.Groups {
		if r.Verdicts[i] != accepted {
			continue
		}
		for _, it := range g.URLs {
			urls = append(urls, it.URL)
			// At once: a page that links to it and is stored from here on need
			// not put it aside again.
			f.sent.Add(it.URL.Digest(), struct{}{})
		}
	}
	err := f.forget(urls, store.Counters{BatchesSent: 1}, func(n int) store.Counters {
		return store.Counters{URLsSent: int64(n)}
	})
	if err != nil {
		return err
	}
	now := time.Now()
	f.with(func(bk *book) {
		for i, g := range b.Groups {
			e := bk.ofOwner(g.Host, owner)
			if e == nil {
				continue // its owner has changed meanwhile
			}
			switch r.Verdicts[i] {
			case accepted:
				e.fails = 0
			case later:
				bk.again(e, min(f.cfg.wait(e.fails), 8*f.cfg.Retry), now)
				e.fails++
			case astray:
				e.astray = true
				bk.again(e, f.cfg.wait(e.fails), now)
				e.fails++
			case notOwner:
				if e.fails > 0 { // what we believe of the subnet did not change by its answer
					bk.denied(owner, g.Subnet)
				}
				bk.again(e, f.cfg.wait(e.fails), now)
				e.fails++
			}
		}
	})
	return nil
}
