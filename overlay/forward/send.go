package forward

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// deliverTimeout bounds a batch from the dial to the receipt.
const deliverTimeout = 60 * time.Second

// send takes one batch to an owner. Its error is one of the store.
func (f *Forwarder) send(ctx context.Context, owner peer.ID, ts []target) error {
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.busy, owner)
	}()
	b, from, err := f.pack(ts)
	if err != nil {
		return err
	}
	if len(b.Groups) == 0 {
		return nil
	}
	r, err := f.deliver(ctx, owner, b)
	if err == nil && len(r.Verdicts) != len(b.Groups) && r.Busy == "" {
		err = errors.New("the receipt does not fit the batch")
	}
	if err != nil || r.Busy != "" {
		f.failed(owner, from, fmt.Sprint(err, r.Busy))
		return nil
	}
	for _, l := range r.Leases {
		f.cfg.Resolver.Learn(l)
	}
	return f.settle(owner, b, from, r)
}

// pack reads what waits for the hosts, up to the size of a batch.
func (f *Forwarder) pack(ts []target) (b batch, from []*entry, err error) {
	n := 0
	limit := min(f.cfg.MaxURLs, maxBatchURLs)
	err = f.cfg.DB.View(func(tx *store.Tx) error {
		for _, t := range ts {
			e := t.entry
			g := group{Host: e.name, Subnet: t.res.Subnet, Addr: t.res.Addr}
			err := tx.Deferred(e.name, func(p store.Pending) (bool, error) {
				if n == limit {
					return false, nil
				}
				n++
				g.URLs = append(g.URLs, item{URL: p.URL, Depth: p.Depth})
				return true, nil
			})
			if err != nil {
				return err
			}
			if len(g.URLs) > 0 {
				b.Groups = append(b.Groups, g)
				from = append(from, e)
			} else if n < limit {
				f.mu.Lock()
				e.count = 0
				f.mu.Unlock()
			}
		}
		return nil
	})
	return b, from, err
}

func (f *Forwarder) deliver(ctx context.Context, owner peer.ID, b batch) (r receipt, err error) {
	ctx, cancel := context.WithTimeout(ctx, deliverTimeout)
	defer cancel()
	c, err := wire.Dial(ctx, f.cfg.Host, owner, limits, f.cfg.Protocol)
	if err != nil {
		return r, err
	}
	defer func() { c.End(err) }()
	if err := c.SendZ(b); err != nil {
		return r, err
	}
	return r, c.Recv(&r)
}

// failed lets an owner rest, and after a few failures asks anew who it is.
func (f *Forwarder) failed(owner peer.ID, es []*entry, why string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pause[owner]
	p.until = time.Now().Add(f.wait(p.fails))
	p.fails++
	f.pause[owner] = p
	if p.fails%3 == 0 {
		for _, e := range es {
			if e.state == foreign {
				e.state, e.at = unresolved, p.until
			}
		}
	}
	f.log.Debug("batch not delivered", "owner", owner, "why", why, "fails", p.fails)
}

// settle does what the receipt says: forgets what was accepted.
func (f *Forwarder) settle(owner peer.ID, b batch, from []*entry, r receipt) error {
	var sent int64
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		sent = 0
		for i, g := range b.Groups {
			if r.Verdicts[i] != accepted {
				continue
			}
			for _, it := range g.URLs {
				if err := tx.Undefer(it.URL); err != nil {
					return err
				}
			}
			sent += int64(len(g.URLs))
		}
		tx.Count(store.Counters{BatchesSent: 1, URLsSent: sent})
		return nil
	})
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pause, owner)
	for i, g := range b.Groups {
		e := from[i]
		switch r.Verdicts[i] {
		case accepted:
			e.count = max(0, e.count-len(g.URLs))
			e.oldest = time.Now()
			e.fails = 0
			for _, it := range g.URLs {
				f.sent.Add(it.URL.Digest(), struct{}{})
			}
		case notOwner:
			e.state, e.at = unresolved, time.Now().Add(f.wait(e.fails))
			e.fails++
		default:
			e.at = time.Now().Add(f.cfg.Retry)
			f.pause[owner] = pauseInfo{until: e.at}
		}
	}
	return nil
}
