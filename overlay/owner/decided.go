package owner

import (
	"iter"
	"net/netip"

	"peerd/coords/assign"
)

// unseen hides the owner of the subnet that is being decided: the subnet is ours, so
// that a lease of another peer is old or forged. Its times remain.
func unseen(e assign.Evidence) assign.Evidence {
	if e.Delegations != nil {
		e.Delegations = unowned{e.Delegations, e.Subnet}
	}
	return e
}

// unowned is a Delegations in which a subnet has no owner.
type unowned struct {
	assign.Delegations
	subnet netip.Prefix
}

// Within implements assign.Delegations.
func (u unowned) Within(p netip.Prefix) iter.Seq[assign.Delegation] {
	return func(yield func(assign.Delegation) bool) {
		for d := range u.Delegations.Within(p) {
			if d.Subnet == u.subnet {
				d.Owner = ""
			}
			if !yield(d) {
				return
			}
		}
	}
}
