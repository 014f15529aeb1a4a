package crawlsim

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"peerd/coords/assign"
)

// knownAfter is how long it takes until all peers know of a decision (overlay/ownermap:
// the least gap between two messages of a peer, and the transfer).
const knownAfter = 10*time.Second + gossipDelay

// known implements assign.Delegations with what the owners of decided subnets have published so
// far. It is valid until the next event.
type known struct{ s *Sim }

// Within returns the delegations in p, ordered by subnet.
func (k known) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	p = p.Masked()
	return func(yield func(assign.Delegation) bool) {
		w := k.s.world
		at, _ := slices.BinarySearchFunc(w.order, p.Addr(), func(server int, a netip.Addr) int {
			return w.Servers[server].Subnet.Addr().Compare(a)
		})
		for _, server := range w.order[at:] {
			subnet := w.Servers[server].Subnet
			if !p.Contains(subnet.Addr()) {
				return
			}
			n := k.s.nets[server]
			if !n.Decided || n.DoneAt+knownAfter > k.s.clock.now || subnet.Bits() < p.Bits() {
				continue
			}
			if !yield(assign.Delegation{Subnet: subnet, Owner: k.s.peers[n.Owner].Name,
				Proxy: n.Proxy}) {
				return
			}
		}
	}
}

// learn updates the traits of a peer, if there is news, from its own downloads and from what
// owners have published about the servers, as the peers do. Its next beacon has them.
func (s *Sim) learn(i int) {
	p := s.peers[i]
	if p.news {
		p.news = false
		for _, name := range p.learner.Subnets() {
			n := s.nets[s.bySubnet[name]]
			if n.Decided && n.Proxy != nil && n.DoneAt+knownAfter <= s.clock.now {
				p.learner.ObserveServer(name, *n.Proxy)
			}
		}
		p.traits = p.learner.Traits()
	}
	s.clock.after(s.spread(s.cfg.Traits), func() { s.learn(i) })
}
