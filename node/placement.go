package node

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"strings"

	"peerd/coords"
	"peerd/internal/order"
	"peerd/node/admin"
	"peerd/store"
)

// typicalPage is the size, in bytes, of the page with which peers are compared.
const typicalPage = 10_000

// rightWithin is the ratio to the fastest peer's time within which an owner is right: predictions
// are not more exact than that.
const rightWithin = 1.25

// maxCandidates bounds the candidates of a placement without its owner.
const maxCandidates = 10

// location is what is known of one subnet.
type location struct {
	owner string // ""; none is known
	epoch uint64
	proxy *coords.Proxy
}

// locate returns what this peer knows of a subnet, from memory.
func (n *Node) locate(p netip.Prefix) (l location) {
	if owner, epoch, ok := n.manager.CopyPolicy().CurrentLease(p); ok {
		l.owner, l.epoch = owner.String(), epoch
	}
	for d := range n.ownerMap.Known().Within(p) {
		if d.Subnet == p {
			l.proxy = d.Proxy
			l.owner = cmp.Or(l.owner, d.Owner)
		}
	}
	return l
}

// fastest returns the peers by their predicted time for a typical page of a server.
func (n *Node) fastest(p coords.Proxy, owner string) []admin.Candidate {
	self := n.net.Self().String()
	var all []admin.Candidate
	for _, c := range n.directory().Candidates() {
		all = append(all, admin.Candidate{
			PeerID: c.ID, Self: c.ID == self, Owner: c.ID == owner,
			PredictedMs: ms(p.Predict(c.At, typicalPage)), DistanceMs: p.At.Distance(c.At),
		})
	}
	order.SortFunc(all, func(a, b admin.Candidate) int {
		return cmp.Or(cmp.Compare(a.PredictedMs, b.PredictedMs), strings.Compare(a.PeerID,
			b.PeerID))
	})
	return all
}

// judge says by the times of candidates, the fastest first, whether the owner is right.
func judge(all []admin.Candidate) (v admin.Verdict, best, owner, here float64) {
	v = admin.VerdictUnknown
	for _, c := range all {
		if c.Self {
			here = c.PredictedMs
		}
		if !c.Owner {
			continue
		}
		owner, v = c.PredictedMs, admin.VerdictWrong
		if c.PredictedMs <= rightWithin*all[0].PredictedMs {
			v = admin.VerdictRight
		}
	}
	if len(all) > 0 {
		best = all[0].PredictedMs
	}
	return v, best, owner, here
}

// maxJudged is the number of moves that are compared with predictions: each takes as many as there
// are peers.
const maxJudged = 200

// Moves returns the subnets that came and went, the latest first. The verdicts of the last ones
// are by what is known now.
func (n *Node) Moves() []admin.Move {
	all := fromJournal(n, func(j *journal) []admin.Move { return j.moves.reversed() })
	for i := range all {
		all[i].Verdict = admin.VerdictUnknown
		p, err := netip.ParsePrefix(all[i].Subnet)
		if err != nil || i >= maxJudged {
			continue
		}
		if l := n.locate(p); l.proxy != nil {
			m := &all[i]
			m.Verdict, m.BestMs, m.OwnerMs, m.HereMs = judge(n.fastest(*l.proxy, l.owner))
		}
		all[i].MeasuredMs = n.journal.fit(p).measured
	}
	return all
}

// reasons returns by subnet how this peer became its owner.
func (n *Node) reasons() map[string]string {
	why := map[string]string{}
	moves := fromJournal(n, func(j *journal) []admin.Move { return j.moves.list() })
	for _, m := range moves {
		delete(why, m.Subnet)
		if m.Kind == admin.EventGained {
			why[m.Subnet] = moveText(m)
		}
	}
	return why
}

// moveText says in a sentence what a move was.
func moveText(m admin.Move) string {
	text := m.Why
	if m.Peer != "" {
		text += ", peer " + m.Peer
	}
	return text
}

// Placement returns the owner of a host, address or subnet.
func (n *Node) Placement(ctx context.Context, of string) (admin.Placement, error) {
	p := admin.Placement{Of: of}
	subnet, found, err := n.subnetFor(ctx, of)
	if err != nil {
		return p, fmt.Errorf("%w: %w", admin.ErrBadRequest, err)
	}
	l := n.locate(subnet)
	p.Subnet, p.Found, p.Owner, p.Epoch = subnet.String(), found, l.owner, l.epoch
	p.Own = l.owner == n.net.Self().String()
	var all []admin.Candidate
	if l.proxy != nil {
		all = n.fastest(*l.proxy, l.owner)
	}
	var best, owner float64
	p.Verdict, best, owner, _ = judge(all)
	for i, c := range all {
		if i < maxCandidates || c.Owner {
			p.Candidates = append(p.Candidates, c)
		}
	}
	for _, m := range n.Moves() {
		if m.Subnet == p.Subnet {
			p.Moves = append(p.Moves, m)
		}
	}
	p.Why = whyOwner(p, best, owner, n.opts.Config.Strategy)
	return p, nil
}

// whyOwner explains an owner in sentences.
func whyOwner(p admin.Placement, best, owner float64, strategy string) string {
	var text string
	switch {
	case p.Owner == "":
		return "No owner is known here. The subnet has not been claimed, or this peer has not " +
			"heard of its lease."
	case p.Own:
		text = "This peer is the owner."
	default:
		text = "Another peer is the owner."
	}
	if p.Epoch > 1 {
		text += fmt.Sprintf(" The subnet has had %d leases with different epochs.", p.Epoch)
	}
	switch {
	case len(p.Candidates) == 0:
		text += " Its servers are not located yet, so no times are predicted."
	case p.Verdict == admin.VerdictRight:
		text += fmt.Sprintf(" It is predicted to need %.0f ms for a typical page, the fastest "+
			"known peer %.0f ms.", owner, best)
	case p.Verdict == admin.VerdictWrong:
		text += fmt.Sprintf(" It is predicted to need %.0f ms for a typical page, but another "+
			"peer %.0f ms; a review will move the subnet if measurements confirm that.",
			owner, best)
	default:
		text += " The owner's coordinate is not known here."
	}
	if len(p.Moves) > 0 {
		text += " Last change: " + moveText(p.Moves[0]) + "."
	}
	return text + fmt.Sprintf(" The strategy is %q.", strategy)
}

// subnetFor returns the subnet of a host, address or subnet, and how it was found.
func (n *Node) subnetFor(ctx context.Context, of string) (netip.Prefix, string, error) {
	if p, err := netip.ParsePrefix(of); err == nil {
		return store.SubnetOf(p.Addr()), "given", nil
	}
	if a, err := netip.ParseAddr(of); err == nil {
		return store.SubnetOf(a.WithZone("")), "given", nil
	}
	if p, _, ok := n.frontier.HostAddr(of); ok {
		return p, "queue", nil
	}
	if r, _ := n.outbox.Row(of); r.Subnet.IsValid() {
		return r.Subnet, "outbox", nil
	}
	addrs, err := n.names.Addrs(ctx, of)
	switch {
	case err != nil:
		return netip.Prefix{}, "", err
	case len(addrs) == 0:
		return netip.Prefix{}, "", fmt.Errorf("%s has no address", of)
	}
	return store.SubnetOf(addrs[0]), "lookup", nil
}
