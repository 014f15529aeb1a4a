package outbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/wire"
	"peerd/store"
)

// errBatch is wrapped by errors of receive about batches that no honest peer sends.
var errBatch = errors.New("outbox: bad batch")

// Serve receives batches until the returned Server is closed.
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
	began := time.Now()
	b.from = f.finders.number(c.Peer())
	f.checkChanged(b, c.Peer())
	r, err := f.receive(ctx, b)
	tell(f.cfg.Node, c.Peer(), false, b, r, began, err)
	if err != nil {
		return err
	}
	return c.Send(r)
}

// maxChangedOrigins is the number of origins in a batch of which pages may be called changed:
// finding out whether the sender speaks for one can take 50 ms.
const maxChangedOrigins = 16

// checkChanged removes the mark from URLs that the sender must not call changed.
func (f *Forwarder) checkChanged(b batch, from peer.ID) {
	allowed := map[string]bool{} // by origin
	for _, g := range b.Groups {
		for i := range g.URLs {
			it := &g.URLs[i]
			if !it.Kind.Changed() {
				continue
			}
			origin := it.URL.Origin()
			ok, known := allowed[origin]
			if !known && len(allowed) < maxChangedOrigins {
				ok = f.cfg.Node.SpeaksFor(from, it.URL)
				allowed[origin] = ok
			}
			if !ok {
				it.Kind &^= store.KindChanged
			}
		}
	}
}

// receive stores the accepted URLs of a batch and returns the receipt. It acknowledges only
// URLs that are on disk and safe; see Node.Safe. If the store is full it acknowledges
// nothing.
func (f *Forwarder) receive(ctx context.Context, b batch) (receipt, error) {
	if err := b.check(); err != nil {
		return receipt{}, err
	}
	var err error
	var queued map[string]bool // nil: there is room for URLs that are pending here
	crowded := false
	f.withTable(func(t *hostTable) { crowded = t.crowded() })
	if crowded {
		if queued, err = queuedHosts(f.cfg.DB, b); err != nil {
			return receipt{}, err
		}
	}
	r := receipt{Results: make([]result, len(b.Groups))}
	var found []store.Pending
	now := time.Now()
	rejected := 0
	for i, g := range b.Groups {
		ok, moving, lease := f.cfg.Resolver.Accepts(g.Subnet)
		switch {
		case moving:
			r.Results[i] = retryLater
			continue
		case !ok:
			r.Results[i] = notOwner
			r.addLease(lease)
			continue
		case f.cfg.Resolver.HomeElsewhere(g.Host, g.Subnet):
			r.Results[i] = wrongHome
			continue
		case queued != nil && !queued[g.Host]:
			r.Results[i] = retryLater
			continue
		}
		r.Results[i] = accepted
		for _, it := range g.URLs {
			if err := f.cfg.Node.Check(it.URL, it.Kind); err != nil {
				// Acknowledged nevertheless: otherwise it would be sent again without end and
				// delay other URLs.
				f.log.Debug("rejected URL of a batch", "host", g.Host, "err", err)
				rejected++
				continue
			}
			if f.recentlyDropped(it.URL, now) {
				continue
			}
			p := g.pending(it, now)
			p.Finder = b.finder(it)
			found = append(found, p)
		}
	}
	if _, full := f.space.full(); full {
		r.postpone()
		return r, nil
	}
	err = f.persist(found, rejected)
	if store.IsNoSpace(err) {
		r.postpone()
		return r, f.space.note(err)
	}
	if err != nil {
		return r, err
	}
	fresh, err := newlyPending(f.cfg.DB, found, now)
	if err != nil {
		return r, err
	}
	f.withTable(func(t *hostTable) {
		for host, n := range fresh {
			t.addReceived(host, n)
		}
	})
	return r, f.withholdUnsafe(ctx, b, r)
}

// newlyPending returns how many of the URLs of a batch are pending since it came, by host: neither
// sent again, nor found before by this peer.
func newlyPending(db *store.DB, found []store.Pending, came time.Time) (map[string]int, error) {
	fresh, seen := map[string]int{}, map[store.URL]bool{}
	came = came.Round(time.Microsecond) // as it is stored
	err := db.View(func(tx *store.Tx) error {
		for _, x := range found {
			p, err := tx.Pending(x.URL)
			switch {
			case errors.Is(err, store.ErrNotFound) || seen[x.URL]:
			case err != nil:
				return err
			case p.Found.Round(time.Microsecond).Equal(came):
				seen[x.URL] = true
				fresh[x.URL.Host()]++
			}
		}
		return nil
	})
	return fresh, err
}

// addLease adds the lease of a subnet that is not this peer's, if it is known and new, and there is
// room.
func (r *receipt) addLease(lease []byte) {
	size := len(lease)
	for _, l := range r.Leases {
		if bytes.Equal(l, lease) {
			return
		}
		size += len(l)
	}
	if len(lease) > 0 && size <= maxLeaseBytes && len(r.Leases) < maxReceiptLeases {
		r.Leases = append(r.Leases, lease)
	}
}

// queuedHosts returns the hosts of a batch that are in a queue of this peer.
func queuedHosts(db *store.DB, b batch) (map[string]bool, error) {
	all := map[string]bool{}
	err := db.View(func(tx *store.Tx) error {
		for _, g := range b.Groups {
			_, ok, err := queueOf(tx, g.Host)
			if err != nil {
				return err
			}
			all[g.Host] = ok
		}
		return nil
	})
	return all, err
}

// persist stores and syncs the URLs of a batch.
func (f *Forwarder) persist(found []store.Pending, rejected int) error {
	if len(found) > 0 {
		if err := f.cfg.Node.Route(found); err != nil {
			return err
		}
	}
	err := f.cfg.DB.Update(func(tx *store.Tx) error {
		tx.Count(store.Counters{BatchesReceived: 1, URLsReceived: int64(len(found)),
			Dropped: int64(rejected)})
		return nil
	})
	if err != nil {
		return err
	}
	return f.cfg.DB.Sync()
}

// postpone turns all acknowledgements into retryLater.
func (r receipt) postpone() {
	for i, v := range r.Results {
		if v == accepted {
			r.Results[i] = retryLater
		}
	}
}

// droppedTTL is for how long a URL that this peer has dropped is acknowledged without being
// looked up again. It was not acknowledged while pending, so its sender sends it again.
const droppedTTL = 2 * time.Minute

// recentlyDropped reports whether u was recently dropped because its host is gone.
func (f *Forwarder) recentlyDropped(u store.URL, now time.Time) bool {
	at, ok := f.dropped.Get(u.Digest())
	return ok && now.Sub(at) < droppedTTL
}

// pendingResult returns the result for a group with URLs that are pending here. If this peer
// takes another one for the host's owner, the URLs would be forwarded in a circle; then both
// the sender and this peer read the home record again.
func (f *Forwarder) pendingResult(g group) result {
	v := retryLater
	f.withTable(func(t *hostTable) {
		if t.markDisputed(g.Host, g.pending(g.URLs[0], time.Now()).Hint, time.Now()) {
			v = wrongHome
		}
	})
	if v == wrongHome {
		f.wakeup.Signal()
	}
	return v
}

// withholdUnsafe turns acknowledgements into retryLater or wrongHome for URLs that only this
// peer has: those in unsafe subnets and those that are pending here.
func (f *Forwarder) withholdUnsafe(ctx context.Context, b batch, r receipt) error {
	homes := make([]netip.Prefix, len(b.Groups))
	var subnets []netip.Prefix
	err := f.cfg.DB.View(func(tx *store.Tx) (err error) {
		seen := map[netip.Prefix]bool{}
		for i, g := range b.Groups {
			if r.Results[i] != accepted {
				continue
			}
			if homes[i], err = homeHere(tx, g); err != nil {
				return err
			}
			if !seen[homes[i]] {
				seen[homes[i]] = true
				subnets = append(subnets, homes[i])
			}
		}
		return nil
	})
	if err != nil || len(subnets) == 0 {
		return err
	}
	unsafe := f.cfg.Node.Safe(ctx, subnets)
	return f.cfg.DB.View(func(tx *store.Tx) error {
		for i, g := range b.Groups {
			if r.Results[i] != accepted {
				continue
			}
			if slices.Contains(unsafe, homes[i]) {
				r.Results[i] = retryLater
				continue
			}
			for _, it := range g.URLs {
				pending, err := tx.HasPending(it.URL)
				if err != nil {
					return err
				}
				if pending {
					r.Results[i] = f.pendingResult(g)
					break
				}
			}
		}
		return nil
	})
}

// homeHere returns the subnet in which the queue of a group's host is, and of which the replicas
// have its URLs. The sender may have found the host in another one. If it is in no queue of this
// peer, that is the subnet that the sender names.
func homeHere(tx *store.Tx, g group) (netip.Prefix, error) {
	p, ok, err := queueOf(tx, g.Host)
	if err == nil && !ok {
		return g.Subnet, nil
	}
	return p, err
}

// queueOf returns the subnet in which this peer has the queue of a host; ok is false if there is
// none.
func queueOf(tx *store.Tx, host string) (p netip.Prefix, ok bool, err error) {
	h, err := tx.Host(host)
	if errors.Is(err, store.ErrNotFound) {
		return p, false, nil
	}
	if err != nil {
		return p, false, err
	}
	s, err := tx.Subnet(h.Subnet)
	if errors.Is(err, store.ErrNotFound) || s.Phase == store.PhaseReplica ||
		s.Phase == store.PhaseStaged {
		return p, false, nil
	}
	return h.Subnet, err == nil, err
}

// check validates the form of a batch.
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
			return fmt.Errorf("%w: host without URLs or valid subnet", errBatch)
		}
		for _, it := range g.URLs {
			if len(it.URL) > maxURL || len(it.From) > maxHost || it.URL.Host() != g.Host {
				return fmt.Errorf("%w: url %.100q is not of host %.100q", errBatch, it.URL, g.Host)
			}
		}
	}
	return nil
}

// sentKinds are the flags that peers send.
const sentKinds = store.KindSitemap | store.KindChanged | store.KindPinged

// finder returns store.Pending.Finder of a received URL.
func (b batch) finder(it item) int {
	if it.Relayed {
		return store.FinderRelayed
	}
	return b.from
}

// pending converts a received URL for the store. The sender's address is only a hint; it is
// kept if it lies in the group's subnet.
func (g group) pending(it item, now time.Time) store.Pending {
	p := store.Pending{URL: it.URL, Depth: min(max(it.Depth, 0), maxDepth), Found: now,
		From: it.From, Kind: it.Kind & sentKinds,
		Hops: min(max(it.Hops, 0), maxHops)}
	if store.SubnetOf(g.Addr) == g.Subnet {
		p.Hint = g.Addr.Unmap()
	}
	return p
}
