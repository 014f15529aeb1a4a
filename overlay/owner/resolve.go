package owner

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"
	"golang.org/x/sync/semaphore"

	"peerd/overlay/home"
	"peerd/overlay/lease"
	"peerd/overlay/outbox"
	"peerd/store"
)

// errLeaving says that a subnet is on its way to another peer; who asks again
// learns to which.
var errLeaving = errors.New("owner: the subnet is leaving")

// errMayNotConnect says that a host without a home has to wait for one: its addresses are connected
// to for that, and another peer may own the subnet by now.
var errMayNotConnect = errors.New("owner: no servers of the subnet may be connected to now")

// resolver is the part of a Manager that finds the owners of hosts.
type resolver struct {
	*table
	arrivals     *arrivals
	claimer      *claimer
	failover     *failover
	hosts        *hosts
	leases       *leases
	reachability *reachability
	leaseLookups *semaphore.Weighted
	checks       *homeChecks
	confirming   *semaphore.Weighted
}

var _ outbox.Resolver = (*resolver)(nil)

// Claim makes this peer the owner of an unowned subnet, or learns which peer is.
func (w *resolver) Claim(ctx context.Context, p netip.Prefix) error {
	return w.claimer.Claim(ctx, p)
}

// Resolve returns the owner of a host. A host of ours is in the frontier when it
// returns. Errors wrap outbox.ErrGone if its URLs are to be dropped.
func (w *resolver) Resolve(
	ctx context.Context, host string, hint netip.Addr,
) (outbox.Resolution, error) {
	if w.hosts.hostMoves.InTransit(host) {
		return outbox.Resolution{}, fmt.Errorf("%w: %s", errLeaving, host)
	}
	if w.cfg.Frontier.Owns(host) {
		return outbox.Resolution{Kind: outbox.Own}, nil
	}
	all, err := w.cfg.Resolve(ctx, host)
	if err != nil {
		return outbox.Resolution{}, err
	}
	found, refused := w.allowed(all)
	addrs, err := w.addresses(host, found, hint, refused)
	if err != nil {
		return outbox.Resolution{}, err
	}
	p, err := w.likelyHome(ctx, host, found, addrs)
	if err != nil {
		return outbox.Resolution{}, err
	}
	for range 3 { // guessed home, settled home, and once more if it changed hands
		r, again, err := w.resolveIn(ctx, host, p, found, addrs)
		if err == nil && r.Kind == outbox.Own && slices.ContainsFunc(found, r.Subnet.Contains) {
			w.hosts.hostMoves.Sighted(host)
		}
		if err != nil || !again {
			return r, err
		}
		p = r.Subnet
	}
	return outbox.Resolution{}, fmt.Errorf("owner: the home of %s keeps changing", host)
}

// likelyHome returns the likely home subnet of a host: the one known from its record if that is
// believed, otherwise that of its address.
func (w *resolver) likelyHome(
	ctx context.Context, host string, found, addrs []netip.Addr,
) (netip.Prefix, error) {
	p, err := w.recordedHome(ctx, host, addrs)
	if err != nil || p == (netip.Prefix{}) {
		return store.SubnetOf(addrs[0]), err
	}
	if ok, err := w.believes(ctx, host, p, found); ok || err != nil {
		return p, err
	}
	return store.SubnetOf(addrs[0]), nil
}

// recordedHome returns the home subnet of a host by its record; a zero one if that is not known.
// Homes move: if the host has an address in a subnet of ours and its known home is elsewhere, the
// record is read again.
func (w *resolver) recordedHome(
	ctx context.Context, host string, addrs []netip.Addr,
) (netip.Prefix, error) {
	p, settled := w.cfg.Homes.Cached(host)
	if !settled {
		return netip.Prefix{}, nil
	}
	if _, recent := w.cfg.Homes.Recent(host); recent || w.Live(p) {
		return p, nil
	}
	if !slices.ContainsFunc(addrs, func(a netip.Addr) bool { return w.Live(store.SubnetOf(a)) }) {
		return p, nil
	}
	r, err := w.cfg.Homes.Read(ctx, host)
	if errors.Is(err, home.ErrUnsettled) {
		return p, nil
	}
	return r.Subnet, err
}

// HomeElsewhere reports that a host's home is known to be a subnet other than p, and
// none of ours.
func (w *resolver) HomeElsewhere(host string, p netip.Prefix) bool {
	q, recent := w.cfg.Homes.Recent(host)
	if !recent || q == p || w.Live(q) || w.cfg.Frontier.Owns(host) {
		return false
	}
	believed, decided := w.checks.get(host, q, time.Now())
	return believed || !decided
}

// RefreshHome reads a host's home record again.
func (w *resolver) RefreshHome(ctx context.Context, host string) error {
	_, err := w.cfg.Homes.Read(ctx, host)
	return err
}

// RefreshOwner reads the owner of a subnet again, and reports whether it is another peer
// than owner. If that one denied that it is the owner, the DHT is not read when another owner is
// known by now; otherwise what is known of the subnet gives way to what the DHT has.
func (w *resolver) RefreshOwner(
	ctx context.Context, p netip.Prefix, owner peer.ID, denied bool,
) (changed bool, err error) {
	switch l, ok := w.cfg.Leases.Cached(p); {
	case !denied || !ok:
	case l.Owner == owner:
		w.cfg.Leases.Doubt(p)
	case l.Owner != w.cfg.Self:
		return true, nil // as its answer said
	}
	l, sealed, err := w.cfg.Leases.Refresh(ctx, p)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		return true, nil // to be claimed
	case err != nil:
		return false, err
	}
	w.leases.beaten(l)
	if l.Owner == owner {
		w.failover.orphaned(l, sealed)
	}
	return l.Owner != owner, nil
}

// allowed returns those of addrs that may be dialled, and why another one may not.
func (w *resolver) allowed(addrs []netip.Addr) (ok []netip.Addr, refused error) {
	for _, a := range addrs {
		if err := w.cfg.Guard.Check(a); err != nil {
			refused = err
			continue
		}
		ok = append(ok, a.Unmap())
	}
	return ok, refused
}

// addresses returns where a host may be dialled: at the addresses that were found, and at the
// finder's hint. That comes first if it is in a subnet of ours: names that resolve differently
// here and there would else be sent to and fro. It is never taken for a host that does not exist.
func (w *resolver) addresses(
	host string, found []netip.Addr, hint netip.Addr, refused error,
) ([]netip.Addr, error) {
	all := slices.Clone(found)
	if hint.IsValid() {
		if err := w.cfg.Guard.Check(hint); err != nil {
			refused = err
		} else if hint = hint.Unmap(); w.Live(store.SubnetOf(hint)) {
			all = slices.Insert(all, 0, hint)
		} else {
			all = append(all, hint)
		}
	}
	switch {
	case len(all) > 0:
		return all, nil
	case refused != nil:
		return nil, fmt.Errorf("%w: %s: %w", outbox.ErrGone, host, refused)
	}
	return nil, fmt.Errorf("%w: %s has no address", outbox.ErrGone, host)
}

// resolveIn looks a host up under the supposition that its home is p. again
// says that the home is another: Resolution.Subnet.
func (w *resolver) resolveIn(
	ctx context.Context, host string, p netip.Prefix, found, addrs []netip.Addr,
) (r outbox.Resolution, again bool, err error) {
	r = outbox.Resolution{Subnet: p}
	for _, a := range addrs {
		if p.Contains(a) {
			r.Addr = a
			break
		}
	}
	w.mu.Lock()
	s := w.subnets[p]
	leaving := s != nil && s.unit.Leaves()
	w.mu.Unlock()
	switch {
	case leaving:
		return r, false, fmt.Errorf("%w: %v", errLeaving, p)
	case s != nil:
		return w.settleHome(ctx, host, s, r, found, addrs)
	}
	l, sealed, err := w.lookUpLease(ctx, p)
	switch {
	case errors.Is(err, lease.ErrUnowned):
		r.Kind = outbox.Unowned
		return r, false, nil
	case err != nil:
		return r, false, err
	case l.Owner == w.cfg.Self: // ours by the DHT, and our disk does not know: we lost it
		if err := w.claimer.restore(l, sealed); err != nil {
			return r, false, err
		}
		if err := w.arrivals.begin(l, sealed); err != nil {
			return r, false, err
		}
		return r, true, nil
	}
	if _, ok := w.cfg.Homes.Known(host); ok && !r.Addr.IsValid() &&
		w.cfg.Leases.Now().Sub(l.Expires) > home.Silence && w.Live(store.SubnetOf(addrs[0])) {
		w.hosts.hostMoves.Lost(host, p, sealed)
	}
	r.Kind, r.Owner = outbox.Foreign, l.Owner
	return r, false, nil
}

// maxLeaseLookups bounds the leases that are read at the same time because hosts are resolved.
const maxLeaseLookups = 24

// lookUpLease returns the lease of a subnet, of which many may be wanted at once.
func (w *resolver) lookUpLease(ctx context.Context, p netip.Prefix) (lease.Lease, []byte, error) {
	if err := w.leaseLookups.Acquire(ctx, 1); err != nil {
		return lease.Lease{}, nil, err
	}
	defer w.leaseLookups.Release(1)
	return w.cfg.Leases.Lookup(ctx, p)
}

// settleHome makes a host of one of our subnets ours, unless its home turns
// out to be elsewhere. The subnet does not leave meanwhile, so its next owner does not connect to
// the host again.
func (w *resolver) settleHome(
	ctx context.Context, host string, s *subnet, r outbox.Resolution, found, addrs []netip.Addr,
) (outbox.Resolution, bool, error) {
	if !w.enter(s) {
		return r, false, fmt.Errorf("%w: %v", errLeaving, r.Subnet)
	}
	defer w.exit(s)
	p, err := w.cfg.Homes.SettleChosen(ctx, host, func(ctx context.Context) (netip.Prefix, error) {
		return w.chooseHome(ctx, host, s.prefix, r.Subnet, addrs)
	})
	if err != nil {
		return r, false, err
	}
	believed := true
	if p != r.Subnet {
		if believed, err = w.believes(ctx, host, p, found); err != nil {
			return r, false, err
		}
	}
	if !believed && len(found) > 0 { // as if there were none: the same for all that see these
		if p, err = w.chooseHome(ctx, host, s.prefix, lowest(found), found); err != nil {
			return r, false, err
		}
	}
	if p != r.Subnet {
		r.Subnet = p
		return r, true, nil
	}
	if !r.Addr.IsValid() {
		// The home was settled when its names were others: it moves when that stays
		// so.
		w.hosts.hostMoves.Lost(host, p, nil)
		return r, false, fmt.Errorf("owner: %s has no address in its home %v", host, p)
	}
	r.Kind = outbox.Own
	w.hosts.hostMoves.Settled(host)
	var at time.Time
	if inSeveral(p, addrs) { // we or another owner may just have connected to it
		at = time.Now().Add(w.cfg.Gap)
	}
	added, err := w.hosts.hostMoves.Add(host, func() error {
		return w.cfg.Frontier.AddHost(host, p, r.Addr, at)
	})
	if err == nil && !added { // it has begun to move since Resolve began
		err = fmt.Errorf("%w: %s", errLeaving, host)
	}
	return r, false, err
}

// chooseHome is reachableHome for a host that came to this peer as the owner of a subnet. It fails
// with errMayNotConnect if that has to connect, and this peer may not act as the owner now.
func (w *resolver) chooseHome(
	ctx context.Context, host string, owned, likely netip.Prefix, addrs []netip.Addr,
) (netip.Prefix, error) {
	if inSeveral(likely, addrs) && !w.MayFetch(owned) {
		return netip.Prefix{}, fmt.Errorf("%w: %s", errMayNotConnect, host)
	}
	return w.reachability.reachableHome(ctx, host, likely, addrs), nil
}

// lowest returns the subnet of the lowest address.
func lowest(addrs []netip.Addr) netip.Prefix {
	return store.SubnetOf(slices.MinFunc(addrs, netip.Addr.Compare))
}

// Accepts reports whether this peer takes URLs of a subnet now. moving reports that they
// should be offered again soon; sealed is the lease of the peer that takes them instead,
// if known.
func (w *resolver) Accepts(p netip.Prefix) (ok, moving bool, sealed []byte) {
	w.mu.Lock()
	s := w.subnets[p]
	if s != nil {
		moving = !s.unit.Works()
		w.mu.Unlock()
		moving = moving || !w.HasQuorumLease()
		return !moving, moving, nil
	}
	w.mu.Unlock()
	if _, held := w.cfg.Replicas.Copy(p); held {
		// Mostly the sender has not heard of a handover, and learns of it. One that has
		// another reason sends again.
		if w.foreignUntil(p).Before(w.cfg.Leases.Now()) {
			w.failover.resume(p, 1)
		}
		sealed, _ = w.cfg.Leases.Sealed(p)
		return false, false, sealed
	}
	ours, unknown := w.ours(p)
	switch {
	case ours: // a claim may be under way
		w.claimer.verifyLease(p, time.Now().Add(unsettledWait))
	case unknown:
		w.claimer.verifyReported(p)
	}
	sealed, _ = w.cfg.Leases.Sealed(p)
	return false, ours, sealed
}

// foreignFor is how long the DHT is not asked again because URLs come for a subnet of which it has
// named another owner: each peer that has not heard of a handover sends some.
const foreignFor = 30 * time.Second

// foreignUntil returns until when, by the clock of the leases, a subnet counts as another peer's;
// zero: it does not.
func (w *resolver) foreignUntil(p netip.Prefix) time.Time {
	e, ok := w.cfg.Leases.Get(p)
	if !ok || e.Asked.IsZero() || e.Record.Owner == w.cfg.Self {
		return time.Time{}
	}
	return e.Asked.Add(foreignFor)
}

// Learn takes in a lease that another peer sent.
func (w *resolver) Learn(sealed []byte) {
	l, err := w.cfg.Leases.Learn(sealed)
	if err != nil {
		w.log.Debug("rejected received lease", "err", err)
		return
	}
	w.leases.beaten(l)
}
