package owner

import (
	"iter"
	"net/netip"
	"time"

	"peerd/coords/assign"
	"peerd/store"
)

// Decided is a subnet that is ours for good, until something changes.
type Decided struct {
	Subnet netip.Prefix
	// Sealed is its lease; nil while that is to be signed anew because it does
	// not say yet what was decided.
	Sealed []byte
}

// Decided returns the subnets that are ours for good, in no order.
func (m *Manager) Decided() []Decided {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Decided, 0, len(m.subnets))
	for _, s := range m.subnets {
		if s.phase != store.PhaseOwned || s.leaving() || s.doubted() {
			continue
		}
		d := Decided{Subnet: s.prefix}
		if s.renewAt.After(now) {
			d.Sealed = s.sealed
		}
		all = append(all, d)
	}
	return all
}

// unseen has nobody be given a subnet unseen because it says that it is its own:
// the subnet that is being decided is ours, so that a lease of another peer is
// an old or a forged one. What that says of times is left.
func unseen(e assign.Evidence) assign.Evidence {
	if e.Known != nil {
		e.Known = unowned{e.Known, e.Subnet}
	}
	return e
}

// unowned is a Known in which a subnet is nobody's.
type unowned struct {
	assign.Known
	subnet netip.Prefix
}

// Within implements assign.Known.
func (u unowned) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		for d := range u.Known.Within(p) {
			if d.Subnet == u.subnet {
				d.Owner = ""
			}
			if !yield(d) {
				return
			}
		}
	}
}
