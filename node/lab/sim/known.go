package sim

import (
	"iter"
	"net/netip"
	"slices"
	"time"

	"peerd/coords/assign"
)

// knownAfter is how long it takes until all know of a decision (overlay/atlas:
// the least gap between two messages of a peer, and the way).
const knownAfter = 10*time.Second + gossipDelay

// known is what the owners of decided subnets have told by now, to whoever asks
// for as long as nothing else happens. It is an assign.Known.
type known struct{ s *Sim }

// Within lists the delegations in p by subnet.
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
			if !yield(assign.Delegation{Subnet: subnet, Owner: k.s.peers[n.Owner].Name, Proxy: n.Proxy}) {
				return
			}
		}
	}
}

// learn works out what a peer has learned of itself, if there is news, from its
// own downloads and from what owners have told of the servers: as the peers do.
// The next beacon tells it.
func (s *Sim) learn(i int) {
	p := s.peers[i]
	if p.news {
		p.news = false
		for _, name := range p.learner.Subnets() {
			n := s.nets[s.bySubnet[name]]
			if n.Decided && n.Proxy != nil && n.DoneAt+knownAfter <= s.clock.now {
				p.learner.Told(name, *n.Proxy)
			}
		}
		p.traits = p.learner.Traits()
	}
	s.clock.after(s.spread(s.cfg.Traits), func() { s.learn(i) })
}
