package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/witness"
	"peerd/store"
)

// A peer that has lost its disk and returns under its old key is, by the DHT, the owner
// of subnets of which it knows nothing. Its replicas know everything, so it grants each
// such subnet to one of them instead of fetching everything again.
//
//	own lease, nothing here --> which reachable peer has a copy? --> the best: a handover, at
//	                               |                         the position of its copy
//	                               | for Times.Recreate: its replicas may be partitioned. If
//	                               | it was ours for too short a time to have any: for
//	                               | Times.Silence if all peers asked say no, or for
//	                               | Times.Orphan if not all answer
//	                               v
//	                             recreated
//
// Meanwhile nothing is fetched there, and its URLs wait. The grant is saved before it is
// sent, and no other peer gets one while that holder may have used it. If a replica has
// already taken over, the lease read before shows it; if it does so at the same moment,
// both leases have the same epoch and the tie-break decides.

// errRestoring makes URLs wait for a subnet of which a copy is looked for.
var errRestoring = errors.New(
	"owner: the subnet is ours but not on disk; asking other peers for a copy")

var (
	// errNothing says that there is no copy to be had.
	errNothing = errors.New("no peer has a copy")
	// errUnanswered says that not all have answered who may have one.
	errUnanswered = errors.New("not all peers have answered")
)

// restoring is a subnet of ours by the DHT of which nothing is here.
type restoring struct {
	lease  lease.Lease
	sealed []byte
	since  time.Time
	over   bool             // there is no copy: it may be recreated
	not    map[peer.ID]bool // who has refused, until all holders have
}

// ownedBefore prevents claiming a subnet that is ours by the DHT, and not by a claim that broke
// off, until it is known that no peer has a copy.
func (c *claimer) ownedBefore(p netip.Prefix) error {
	l, ok := c.cfg.Leases.Cached(p)
	if !ok || l.Owner != c.cfg.Self {
		return nil
	}
	sealed, _ := c.cfg.Leases.Sealed(p)
	return c.restore(l, sealed)
}

// restore reports whether a subnet that is ours by the DHT and not on disk may be
// recreated: once it is known that no peer has a copy. Until then it returns
// errRestoring.
func (c *claimer) restore(l lease.Lease, sealed []byte) error {
	c.mu.Lock()
	ours := c.claims[l.Subnet] || c.subnets[l.Subnet] != nil
	c.mu.Unlock()
	if ours || c.cfg.ReplicaCount == 0 {
		return nil
	}
	if _, held := c.cfg.Replicas.Copy(l.Subnet); held { // to begin with
		return nil
	}
	over := false
	c.restores.change(l.Subnet, func(e *entry[*restoring]) { over = e.about.over })
	if over {
		c.restores.done(l.Subnet)
		return nil
	}
	c.restores.add(l.Subnet, time.Time{}, &restoring{lease: l, sealed: sealed, since: time.Now(),
		not: map[peer.ID]bool{}})
	c.wake()
	return errRestoring
}

// toRestore returns what is to be done for such subnets, one group at a time.
func (c *claimer) toRestore(now time.Time) []func(context.Context) {
	if c.draining.Load() || c.restores.busy() > 0 {
		return nil
	}
	var due []*restoring
	c.restores.due(now, func(p netip.Prefix, e *entry[*restoring]) verdict {
		switch {
		case c.Live(p):
			return forget
		case e.about.over || len(due) == askSteps:
			return skip
		}
		due = append(due, e.about)
		return begin
	})
	if len(due) == 0 {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		c.restoreAll(ctx, due)
		c.wake()
	}}
}

// restoreAll tries to find copies and to hand the subnets to their holders. Nothing else
// changes rs while they are busy.
func (c *claimer) restoreAll(ctx context.Context, rs []*restoring) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	errs := make([]error, len(rs))
	each(rs, func(i int, r *restoring) { errs[i] = c.stillMine(ctx, r) })
	var ls []lease.Lease
	for i, r := range rs {
		if errs[i] == nil {
			ls = append(ls, r.lease)
		}
	}
	h := c.replicas.holders(ctx, ls)
	each(rs, func(i int, r *restoring) {
		if errs[i] == nil {
			errs[i] = c.entrust(ctx, r, h)
		}
		c.restored(ctx, r, errs[i])
	})
}

// stillMine reads the lease again. Our own lease in the DHT is treated as no lease until
// we claim it, and is remembered.
func (c *claimer) stillMine(ctx context.Context, r *restoring) error {
	p := r.lease.Subnet
	_, _, err := c.cfg.Leases.Refresh(ctx, p)
	if err != nil && !errors.Is(err, lease.ErrUnowned) {
		return err
	}
	l, ok := c.cfg.Leases.Cached(p)
	sealed, _ := c.cfg.Leases.Sealed(p)
	if !ok || sealed == nil || l.Owner != c.cfg.Self {
		return errNotOurs
	}
	r.lease, r.sealed = l, sealed
	return nil
}

// search is how long a copy of a subnet of ours is looked for: if all who are asked
// answer, and at most.
func (c *claimer) search(l lease.Lease) (short, long time.Duration) {
	// a claim that a crash broke off
	if undecided(l) && l.Issued.Add(c.cfg.Times.First+c.cfg.Times.Lost).After(
		c.cfg.Leases.ByClock(c.started)) {
		return c.cfg.Times.Silence, c.cfg.Times.Orphan
	}
	return c.cfg.Times.Recreate, c.cfg.Times.Recreate
}

// entrust gives a subnet to who has the best copy of it.
func (c *claimer) entrust(ctx context.Context, r *restoring, h holding) error {
	p, quiet := r.lease.Subnet, time.Since(r.since)
	short, long := c.search(r.lease)
	g, err := c.loadGrant(p)
	if err != nil {
		return err
	}
	var offered []held
	for _, x := range h.copies[p] {
		if !r.not[x.by] {
			offered = append(offered, x)
		}
	}
	to, ok := best(offered)
	if !ok { // the reasons may pass: a holder may still be waiting for an offer that broke off
		clear(r.not)
	}
	switch {
	case g.Epoch == r.lease.Epoch+1: // to the same peer, whatever others say
		if quiet > long && c.silence(g.To, time.Now()) > long {
			return errNothing // it may be back with a lease that beats ours
		}
		to = held{by: g.To}
		for _, x := range h.copies[p] {
			if x.by == g.To {
				to = x
			}
		}
	case ok:
		g = grantRecord{}
	case quiet > long,
		quiet > short && h.asked[p] > 0 && h.silent[p] == 0 && len(h.copies[p]) == 0:
		return errNothing
	default:
		return errUnanswered
	}
	o := handover.Offer{Subnet: p, Epoch: r.lease.Epoch + 1, Lease: r.sealed, Wait: c.cfg.Cooldown,
		Pos: to.Pos}
	sealed, err := c.cfg.Sender.SendGrant(ctx, to.by, o, func() ([]byte, error) {
		return c.signGrant(r, to.by, g)
	})
	if errors.Is(err, handover.ErrRefused) {
		r.not[to.by] = true
	}
	if err == nil {
		_, err = c.cfg.Leases.Learn(sealed)
	}
	if err == nil {
		c.log.Warn("handed lost subnet to replica", "subnet", p,
			"to", to.by, "epoch", o.Epoch)
	}
	return err
}

// grantRecord is a grant on disk for a subnet of which nothing else is here.
type grantRecord struct {
	To    peer.ID `cbor:"1,keyasint"`
	Epoch uint64  `cbor:"2,keyasint"`
	Grant []byte  `cbor:"3,keyasint"`
}

func grantKey(p netip.Prefix) string { return "owner/given/" + p.String() }

// loadGrant reads the grant for a subnet from disk; the zero one if there is none.
func (c *claimer) loadGrant(p netip.Prefix) (g grantRecord, err error) {
	err = c.cfg.DB.View(func(tx *store.Tx) error {
		b, err := tx.Data(grantKey(p))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = cbor.Unmarshal(b, &g)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("owner: read grant of %v: %w", p, err)
	}
	return g, err
}

// signGrant returns the grant for a holder, signed and saved; an existing one is reused. Either
// needs the quorum lease.
func (c *claimer) signGrant(r *restoring, to peer.ID, g grantRecord) ([]byte, error) {
	p := r.lease.Subnet
	switch {
	case !c.HasQuorumLease():
		return nil, errNoQuorumLease
	case g.Grant != nil:
		return g.Grant, nil
	case c.Live(p):
		return nil, errors.New("owner: the subnet was recreated")
	}
	grant, err := r.lease.GrantTo(to, c.cfg.Leases.Now(), c.cfg.Key)
	if err != nil {
		return nil, err
	}
	b, err := cbor.Marshal(grantRecord{To: to, Epoch: r.lease.Epoch + 1, Grant: grant})
	if err != nil {
		return nil, err
	}
	if err := c.cfg.DB.Update(func(tx *store.Tx) error {
		return tx.PutData(grantKey(p), b)
	}); err != nil {
		return nil, err
	}
	if err := c.cfg.DB.Sync(); err != nil {
		return nil, err
	}
	if !c.HasQuorumLease() { // a slow disk may outlast it
		return nil, errNoQuorumLease
	}
	return grant, nil
}

// restored records the result of an attempt. URLs that wait for the subnet are resolved
// again when it is over.
func (c *claimer) restored(ctx context.Context, r *restoring, err error) {
	p := r.lease.Subnet
	over := err == nil || errors.Is(err, errNotOurs) || errors.Is(err, errNothing)
	if over {
		if err := c.cfg.DB.Update(func(tx *store.Tx) error {
			return tx.DeleteData(grantKey(p))
		}); err != nil {
			c.log.Error("failed to delete obsolete grant", "subnet", p, "err", err)
		}
	}
	switch {
	case errors.Is(err, errNothing):
		c.restores.change(p, func(e *entry[*restoring]) {
			e.state, e.about.over = entryWaits, true
		})
	case over:
		c.restores.done(p)
	default:
		c.restores.fail(p, time.Now())
	}
	switch {
	case over:
		c.cfg.Outbox.ResolveAgain(p)
	case ctx.Err() == nil:
		c.log.Info("found no copy of lost subnet yet",
			"subnet", p, "err", err)
	}
}
