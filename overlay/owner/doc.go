// Package owner decides which peer owns a subnet and acts on the decision. A [Manager]
// holds the subnets of this peer: it claims subnets without an owner, renews their
// leases, answers which peer fetches next, moves subnets to better peers, keeps
// replicas, takes over from silent owners, and yields to better leases.
//
//	            Claim                 Strategy: this peer
//	(unowned) --------> estimating ----------------> owned <--+ reviews, scouts
//	                        |  Strategy: another peer  | | |---+
//	                        v                          | v a better lease is known
//	                    leaving <----------------------+ yielding
//	                        +------- handover ---> (owned by another peer)
//
// It guarantees that a subnet is worked on only under a lease that was settled, granted
// or voted, and while the quorum lease holds; that a grant is on disk before it is sent;
// and that a batch of URLs is acknowledged only when the replicas have it on disk.
// During a partition two peers may own a subnet for a bounded time; the lease with the
// higher epoch, or the tie-break, then decides.
//
// Callers create a Manager with [New], load the frontier with the subnets that are Live,
// call Attach once, and then Run until the process ends. Methods are safe for concurrent
// use unless documented otherwise. No method holds the table's mutex during I/O; the
// Frontier must not call the Manager.
//
// What the package needs of other layers it declares in needs.go and config.go.
//
// Package ownership has the states of a subnet and what changes them; the parts of a Manager
// give it events.
//
// docs/protocol/ownership.md describes the protocol and the rules for concurrent events,
// docs/protocol/lease.md the leases and docs/protocol/hostmove.md the moves of hosts.
package owner
