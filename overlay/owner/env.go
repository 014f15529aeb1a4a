package owner

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/netip"
	"strings"
	"time"

	"github.com/libp2p/go-libp2p/core/peer"

	"peerd/coords/assign"
	"peerd/internal/backoff"
	"peerd/internal/order"
	"peerd/overlay/lease"
	"peerd/overlay/replica"
	"peerd/overlay/witness"
)

// env is what every part of a Manager works with. It does not change after Attach.
type env struct {
	cfg     Config
	self    string // cfg.Self in text form
	log     *slog.Logger
	started time.Time
	kick    backoff.Wake
}

func (e *env) wake() { e.kick.Signal() }

// candidates are the peers of the directory, by name.
func (e *env) candidates() []assign.Candidate {
	all := e.cfg.Directory.Candidates()
	order.SortFunc(all, func(a, b assign.Candidate) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// delegations returns what is known of other subnets; nil if nothing is.
func (e *env) delegations() assign.Delegations {
	if e.cfg.OwnerMap == nil {
		return nil
	}
	return e.cfg.OwnerMap.Known()
}

// takers are this peer, and those of the others that take subnets.
func (e *env) takers() []assign.Candidate {
	var some []assign.Candidate
	for _, c := range e.candidates() {
		if c.ID == e.self || !e.cfg.Limiter.AtCapacity(c.ID) {
			some = append(some, c)
		}
	}
	return some
}

// HasQuorumLease reports whether this peer may act as the owner of its subnets now. It
// uses memory only.
func (e *env) HasQuorumLease() bool {
	if e.cfg.Witness == nil {
		return true
	}
	ok, _ := e.cfg.Witness.QuorumLease()
	return ok
}

// lastHeard returns when a peer was last heard, since our start at the least.
func (e *env) lastHeard(who peer.ID) time.Time {
	at := e.started
	if e.cfg.Contacts != nil {
		if heard := e.cfg.Contacts.Heard(who); heard.After(at) {
			at = heard
		}
	}
	return at
}

// silence returns for how long a peer has been silent, since our start at the most.
func (e *env) silence(who peer.ID, now time.Time) time.Duration {
	return now.Sub(e.lastHeard(who))
}

// share is this peer's part of Times.Spread: the same whenever it is asked, and
// another for each peer and subnet.
func (e *env) share(p netip.Prefix) time.Duration {
	h := fnv.New32a()
	fmt.Fprintf(h, "%v %s", p, e.cfg.Self)
	return time.Duration(float64(e.cfg.Times.Spread) * float64(h.Sum32()) / (1 << 32))
}

// ask requests votes from the witness set of a silent owner, if it is known.
func (e *env) ask(
	ctx context.Context, owner peer.ID, set []byte, steps []witness.Proposal,
) (witness.Tally, error) {
	if len(set) == 0 {
		return witness.Tally{}, fmt.Errorf("%w: its witness set is not known", errVotes)
	}
	return e.cfg.Witness.RequestVotes(ctx, owner, set, steps)
}

// dead reports whether the owner of a copy has been silent for so long that no better
// replica can still take over.
func (e *env) dead(h replica.LocalCopy, now time.Time) bool {
	return !h.Live && e.silence(h.Owner, now) > e.cfg.Times.Orphan+8*e.share(h.Subnet)
}

// ours says whether the best lease that is known of a subnet is one of this peer; unknown,
// that none is.
func (e *env) ours(p netip.Prefix) (ours, unknown bool) {
	l, ok := e.cfg.Leases.Cached(p)
	return ok && l.Owner == e.cfg.Self, !ok
}

// beats says whether the lease `by` of another peer ends what ours allows. One
// of ours that is past its grace has lost its rank.
func (e *env) beats(by, ours lease.Lease) bool {
	return e.cfg.Leases.Now().Sub(ours.Expires) > lease.Grace ||
		e.cfg.Leases.Replaces(ours, by, time.Now())
}

func newEnv(cfg Config) *env {
	e := &env{cfg: cfg, self: cfg.Self.String(), log: cfg.Logger, started: time.Now(),
		kick: backoff.NewWake()}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	return e
}
