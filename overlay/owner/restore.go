package owner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/overlay/handover"
	"peerd/overlay/lease"
	"peerd/overlay/witness"
	"peerd/store"
)

// A peer that has lost its disk and comes back under its old key owns by the DHT what it
// knows nothing of. Its shadows know all: so it gives each such subnet to one of them,
// by its grant, instead of fetching everything again.
//
//	lease of ours, nothing here --> who there is has a copy? --> the best: a handover, at
//	                                  |                          the place where its copy is
//	                                  | for Times.Anew: its shadows may be behind a cut. If it
//	                                  | was ours for too short a time to have any: for
//	                                  | Times.Silence all asked say no, or not all answer
//	                                  | for Times.Orphan
//	                                  v
//	                                begun anew
//
// Meanwhile nothing is fetched there, and its URLs wait. The grant is written down before
// it is sent, and nobody else is given one while that holder may have used it. Should a
// shadow have taken over already, the lease that is read before shows it; if that is just
// happening, both leases are of one epoch and the tie-break decides.

// errRestoring makes URLs wait for a subnet of which a copy is looked for.
var errRestoring = errors.New("owner: the subnet is ours and not on this disk; others are asked for a copy")

var (
	// errNothing says that there is no copy to be had.
	errNothing = errors.New("nobody has a copy")
	// errUnanswered says that not all have answered who may have one.
	errUnanswered = errors.New("not everybody has answered yet")
)

// restoring is a subnet of ours by the DHT of which nothing is here.
type restoring struct {
	lease  lease.Lease
	sealed []byte
	since  time.Time
	busy   bool
	over   bool // there is no copy: it may be begun anew
	fails  int
	next   time.Time // not before
	not    map[peer.ID]bool
}

// ownedBefore keeps a subnet from being claimed that is ours by the DHT already, and
// that no claim of this process has made ours, until it is known that nobody has a copy.
func (m *Manager) ownedBefore(p netip.Prefix) error {
	m.mu.Lock()
	ours := m.claims[p] || m.subnets[p] != nil
	m.mu.Unlock()
	if ours {
		return nil
	}
	if l, ok := m.cfg.Leases.Cached(p); ok && l.Owner == m.cfg.Self {
		sealed, _ := m.cfg.Leases.Sealed(p)
		if err := m.restore(l, sealed); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.claims) < maxOrphans {
		m.claims[p] = true
	}
	return nil
}

// restore says whether a subnet may be begun anew that is ours by the DHT and not on
// the disk: once it is known that nobody has a copy. Until then it returns
// errRestoring.
func (m *Manager) restore(l lease.Lease, sealed []byte) error {
	if m.cfg.Replicas == nil || m.cfg.Shadows == 0 {
		return nil
	}
	if _, held := m.cfg.Replicas.Copy(l.Subnet); held { // to begin with
		return nil
	}
	m.mu.Lock()
	r := m.restores[l.Subnet]
	over := r != nil && r.over
	switch {
	case over:
		delete(m.restores, l.Subnet)
	case r == nil && len(m.restores) < maxOrphans:
		m.restores[l.Subnet] = &restoring{lease: l, sealed: sealed, since: time.Now(), not: map[peer.ID]bool{}}
	}
	m.mu.Unlock()
	if over {
		return nil
	}
	m.wake()
	return errRestoring
}

// toRestore returns what is to be done for such subnets, one group at a time.
func (m *Manager) toRestore(now time.Time) []func(context.Context) {
	if m.draining.Load() {
		return nil
	}
	var due []*restoring
	m.mu.Lock()
	for p, r := range m.restores {
		switch {
		case r.busy:
			m.mu.Unlock()
			return nil
		case m.subnets[p] != nil:
			delete(m.restores, p)
		case !r.over && !now.Before(r.next) && len(due) < askSteps:
			due = append(due, r)
		}
	}
	for _, r := range due {
		r.busy = true
	}
	m.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	return []func(context.Context){func(ctx context.Context) {
		m.restoreAll(ctx, due)
		m.wake()
	}}
}

// restoreAll tries to have copies found, and gone on with. While they are busy nobody
// else changes rs.
func (m *Manager) restoreAll(ctx context.Context, rs []*restoring) {
	ctx, cancel := context.WithTimeout(ctx, 3*witness.VoteWindow)
	defer cancel()
	errs := make([]error, len(rs))
	each(rs, func(i int, r *restoring) { errs[i] = m.stillMine(ctx, r) })
	var ls []lease.Lease
	for i, r := range rs {
		if errs[i] == nil {
			ls = append(ls, r.lease)
		}
	}
	h := m.holders(ctx, ls)
	each(rs, func(i int, r *restoring) {
		if errs[i] == nil {
			errs[i] = m.entrust(ctx, r, h)
		}
		m.restored(ctx, r, errs[i])
	})
}

// stillMine reads the lease anew. What the DHT has of ours counts as no lease until we
// claim it, and is remembered.
func (m *Manager) stillMine(ctx context.Context, r *restoring) error {
	p := r.lease.Subnet
	_, _, err := m.cfg.Leases.Refresh(ctx, p)
	if err != nil && !errors.Is(err, lease.ErrUnowned) {
		return err
	}
	l, ok := m.cfg.Leases.Cached(p)
	sealed, _ := m.cfg.Leases.Sealed(p)
	if !ok || sealed == nil || l.Owner != m.cfg.Self {
		return errNotOurs
	}
	r.lease, r.sealed = l, sealed
	return nil
}

// search is how long a copy of a subnet of ours is looked for: if all who are asked
// answer, and at most.
func (m *Manager) search(l lease.Lease) (short, long time.Duration) {
	if undecided(l) && l.Issued.Add(m.cfg.Times.First+m.cfg.Times.Lost).After(m.started) { // a claim that a crash broke off
		return m.cfg.Times.Silence, m.cfg.Times.Orphan
	}
	return m.cfg.Times.Anew, m.cfg.Times.Anew
}

// entrust gives a subnet to who has the best copy of it.
func (m *Manager) entrust(ctx context.Context, r *restoring, h holding) error {
	p, quiet := r.lease.Subnet, time.Since(r.since)
	short, long := m.search(r.lease)
	g, err := m.given(p)
	if err != nil {
		return err
	}
	var offered []held
	for _, c := range h.copies[p] {
		if !r.not[c.by] {
			offered = append(offered, c)
		}
	}
	c, ok := best(offered)
	switch {
	case g.Epoch == r.lease.Epoch+1: // to the same peer, whatever others say
		if quiet > long && time.Since(m.lastHeard(g.To)) > long {
			return errNothing // it may be back with a lease that beats ours
		}
		c = held{by: g.To}
		for _, x := range h.copies[p] {
			if x.by == g.To {
				c = x
			}
		}
	case ok:
		g = bequest{}
	case quiet > long, quiet > short && h.asked[p] > 0 && h.silent[p] == 0:
		return errNothing
	default:
		return errUnanswered
	}
	o := handover.Offer{Subnet: p, Epoch: r.lease.Epoch + 1, Lease: r.sealed, Wait: m.cfg.Rest, Pos: c.Pos}
	sealed, err := m.cfg.Sender.Give(ctx, c.by, o, func() ([]byte, error) { return m.give(r, c.by, g) })
	if errors.Is(err, handover.ErrRefused) {
		r.not[c.by] = true
	}
	if err == nil {
		_, err = m.cfg.Leases.Learn(sealed)
	}
	if err == nil {
		m.log.Warn("a subnet that was on a lost disk goes on at its shadow", "subnet", p, "to", c.by, "epoch", o.Epoch)
	}
	return err
}

// bequest is a grant that was given for a subnet of which nothing is here, on the disk.
type bequest struct {
	To    peer.ID `cbor:"1,keyasint"`
	Epoch uint64  `cbor:"2,keyasint"`
	Grant []byte  `cbor:"3,keyasint"`
}

func bequestKey(p netip.Prefix) string { return "owner/given/" + p.String() }

// given reads the grant that was given for a subnet; the zero one if none was.
func (m *Manager) given(p netip.Prefix) (g bequest, err error) {
	err = m.cfg.DB.View(func(tx *store.Tx) error {
		b, err := tx.Data(bequestKey(p))
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = cbor.Unmarshal(b, &g)
		}
		return err
	})
	if err != nil {
		err = fmt.Errorf("owner: the grant given for %v: %w", p, err)
	}
	return g, err
}

// give signs the grant for a holder, unless that was done before, and writes it down.
func (m *Manager) give(r *restoring, to peer.ID, g bequest) ([]byte, error) {
	p := r.lease.Subnet
	switch {
	case g.Grant != nil:
		return g.Grant, nil
	case !m.Right():
		return nil, errNoRight
	case m.Live(p):
		return nil, errors.New("owner: the subnet has been begun anew")
	}
	grant, err := lease.SealGrant(lease.Grant{
		Subnet: p, From: m.cfg.Self, To: to, Epoch: r.lease.Epoch + 1, Issued: time.Now(),
	}, m.cfg.Key)
	if err != nil {
		return nil, err
	}
	b, err := cbor.Marshal(bequest{To: to, Epoch: r.lease.Epoch + 1, Grant: grant})
	if err != nil {
		return nil, err
	}
	if err := m.cfg.DB.Update(func(tx *store.Tx) error { return tx.PutData(bequestKey(p), b) }); err != nil {
		return nil, err
	}
	return grant, m.cfg.DB.Sync()
}

// restored notes how a try went. What waits for the subnet is resolved anew when it is
// over.
func (m *Manager) restored(ctx context.Context, r *restoring, err error) {
	p := r.lease.Subnet
	over := err == nil || errors.Is(err, errNotOurs) || errors.Is(err, errNothing)
	if over {
		if err := m.cfg.DB.Update(func(tx *store.Tx) error { return tx.DeleteData(bequestKey(p)) }); err != nil {
			m.log.Error("a grant that is over is not forgotten", "subnet", p, "err", err)
		}
	}
	m.mu.Lock()
	r.busy = false
	switch {
	case errors.Is(err, errNothing):
		r.over = true
	case over:
		delete(m.restores, p)
	default:
		wait := min(takeWait<<min(r.fails, 10), takeWaitMax)
		r.next = time.Now().Add(wait/2 + rand.N(wait/2+1))
		r.fails++
	}
	m.mu.Unlock()
	switch {
	case over:
		m.cfg.Moved(p)
	case ctx.Err() == nil:
		m.log.Info("a subnet of ours is not on this disk, and no copy of it is found yet", "subnet", p, "err", err)
	}
}
