package forward

import (
	"context"
	"fmt"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// Serve takes batches until the Server is closed.
func (f *Forwarder) Serve() *wire.Server {
	return wire.Serve(f.cfg.Host, f.cfg.Protocol, limits, f.cfg.Logger, f.handle)
}

func (f *Forwarder) handle(_ context.Context, c *wire.Conn) error {
	var b batch
	if err := c.RecvZ(&b); err != nil {
		return err
	}
	r, err := f.receive(b)
	if err != nil {
		return err
	}
	return c.Send(r)
}

// receive stores what is ours of a batch and returns the receipt for it. It
// acknowledges nothing that is not on the disk.
func (f *Forwarder) receive(b batch) (receipt, error) {
	r := receipt{Verdicts: make([]verdict, len(b.Groups))}
	var found []store.Pending
	now := time.Now()
	for i, g := range b.Groups {
		ok, moving, lease := f.cfg.Resolver.Receive(g.Subnet)
		switch {
		case moving:
			r.Verdicts[i] = later
			continue
		case !ok:
			r.Verdicts[i] = notOwner
			if lease != nil && len(r.Leases) < maxReceiptLeases {
				r.Leases = append(r.Leases, lease)
			}
			continue
		}
		r.Verdicts[i] = accepted
		for _, it := range g.URLs {
			if it.URL.Host() != g.Host {
				return r, fmt.Errorf("url %q is not of host %q", it.URL, g.Host)
			}
			if err := f.cfg.Check(it.URL); err != nil {
				return r, err
			}
			p := store.Pending{URL: it.URL, Depth: it.Depth, Found: now}
			if store.SubnetOf(g.Addr) == g.Subnet {
				p.Hint = g.Addr
			}
			found = append(found, p)
		}
	}
	if len(found) > maxBatchURLs {
		return r, fmt.Errorf("%d URLs in one batch", len(found))
	}
	if err := f.cfg.Sink.Route(found); err != nil {
		return r, err
	}
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(store.Counters{BatchesReceived: 1, URLsReceived: int64(len(found))})
		return nil
	})
	if err != nil {
		return r, err
	}
	return r, f.cfg.DB.Sync()
}
