package forward

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"peerd/overlay/wire"
	"peerd/store"
)

// errBatch is wrapped by what receive says of a batch that no honest peer
// sends.
var errBatch = errors.New("forward: bad batch")

// Serve takes batches until the Server is closed.
func (f *Forwarder) Serve() *wire.Server {
	return wire.Serve(f.cfg.Host, f.cfg.Protocol, batchLimits, f.cfg.Logger, f.handle)
}

func (f *Forwarder) handle(ctx context.Context, c *wire.Conn) error {
	leave, err := f.gate.enter(ctx, c.Peer())
	if err != nil {
		return err
	}
	defer leave()
	var b batch
	if err := c.RecvZ(&b); err != nil {
		return err
	}
	r, err := f.receive(ctx, b)
	if err != nil {
		return err
	}
	return c.Send(r)
}

// receive stores what is ours of a batch and returns the receipt for it. It
// acknowledges nothing that is not on the disk, and safe: see Config.Safe. A store
// without room postpones all.
func (f *Forwarder) receive(ctx context.Context, b batch) (receipt, error) {
	if err := b.check(); err != nil {
		return receipt{}, err
	}
	r := receipt{Verdicts: make([]verdict, len(b.Groups))}
	var found []store.Pending
	now := time.Now()
	refused := 0
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
		case f.cfg.Resolver.Elsewhere(g.Host, g.Subnet):
			r.Verdicts[i] = astray
			continue
		}
		r.Verdicts[i] = accepted
		for _, it := range g.URLs {
			if err := f.cfg.Check(it.URL); err != nil {
				// Acknowledged all the same: it would come again for ever, and
				// hold up what is behind it.
				f.log.Debug("a foreign URL was refused", "host", g.Host, "err", err)
				refused++
				continue
			}
			if f.cfg.Safe != nil && f.dropped(it.URL, now) {
				continue
			}
			found = append(found, g.pending(it, now))
		}
	}
	if f.stalled() {
		r.postpone()
		return r, nil
	}
	err := f.keep(found, refused)
	if store.IsFull(err) {
		r.postpone()
		return r, f.stall(err)
	}
	if err == nil && f.cfg.Safe != nil {
		err = f.guard(ctx, b, r)
	}
	return r, err
}

// keep brings the URLs of a batch onto the disk.
func (f *Forwarder) keep(found []store.Pending, refused int) error {
	if len(found) > 0 {
		if err := f.cfg.Sink.Route(found); err != nil {
			return err
		}
	}
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(store.Counters{BatchesReceived: 1, URLsReceived: int64(len(found)), Dropped: int64(refused)})
		return nil
	})
	if err != nil {
		return err
	}
	return f.cfg.DB.Sync()
}

// postpone takes all acknowledgements back: for want of room the URLs are to come
// again.
func (r receipt) postpone() {
	for i, v := range r.Verdicts {
		if v == accepted {
			r.Verdicts[i] = later
		}
	}
}

// keepGone is how long a URL that was dropped may come again, because it could not
// be acknowledged before, without being looked at once more.
const keepGone = 2 * time.Minute

// dropped says that a URL was dropped here lately, its host being gone.
func (f *Forwarder) dropped(u store.URL, now time.Time) bool {
	at, ok := f.gone.Get(u.Digest())
	return ok && now.Sub(at) < keepGone
}

// waiting is the verdict for URLs that were put aside here. If their host is taken for
// another's they would be passed on from here, and come again, for ever. So both read
// its home anew, the finder and this peer.
func (f *Forwarder) waiting(g group) verdict {
	v := later
	f.with(func(b *book) {
		if b.disputed(g.Host, g.pending(g.URLs[0], time.Now()).Hint, time.Now()) {
			v = astray
		}
	})
	return v
}

// guard takes the acknowledgement back from what nobody but this peer has: the
// URLs of subnets that are not safe, and those that wait here. They come again.
func (f *Forwarder) guard(ctx context.Context, b batch, r receipt) error {
	seen := map[netip.Prefix]bool{}
	var taken []netip.Prefix
	for i, g := range b.Groups {
		if r.Verdicts[i] == accepted && !seen[g.Subnet] {
			seen[g.Subnet] = true
			taken = append(taken, g.Subnet)
		}
	}
	if len(taken) == 0 {
		return nil
	}
	unsafe := f.cfg.Safe(ctx, taken)
	return f.cfg.DB.View(func(tx *store.Tx) error {
		for i, g := range b.Groups {
			if r.Verdicts[i] != accepted {
				continue
			}
			if slices.Contains(unsafe, g.Subnet) {
				r.Verdicts[i] = later
				continue
			}
			for _, it := range g.URLs {
				waits, err := tx.Waiting(it.URL)
				if err != nil {
					return err
				}
				if waits {
					r.Verdicts[i] = f.waiting(g)
					break
				}
			}
		}
		return nil
	})
}

// check looks at the form of a batch.
func (b batch) check() error {
	if len(b.Groups) > maxBatchURLs {
		return fmt.Errorf("%w: %d hosts", errBatch, len(b.Groups))
	}
	n := 0
	for _, g := range b.Groups {
		if n += len(g.URLs); n > maxBatchURLs {
			return fmt.Errorf("%w: more than %d URLs", errBatch, maxBatchURLs)
		}
		if len(g.URLs) == 0 || !g.Subnet.IsValid() || store.SubnetOf(g.Subnet.Addr()) != g.Subnet {
			return fmt.Errorf("%w: a host without URLs or subnet", errBatch)
		}
		for _, it := range g.URLs {
			if len(it.URL) > maxURL || len(it.From) > maxHost || it.URL.Host() != g.Host {
				return fmt.Errorf("%w: url %.100q is not of host %.100q", errBatch, it.URL, g.Host)
			}
		}
	}
	return nil
}

// pending is a received URL as it is stored. The finder's address is a hint
// and no more: it is kept only if it lies where the finder looked.
func (g group) pending(it item, now time.Time) store.Pending {
	p := store.Pending{URL: it.URL, Depth: min(max(it.Depth, 0), maxDepth), Found: now, From: it.From, Kind: it.Kind & store.KindSitemap, Hops: min(max(it.Hops, 0), maxHops)}
	if store.SubnetOf(g.Addr) == g.Subnet {
		p.Hint = g.Addr.Unmap()
	}
	return p
}
