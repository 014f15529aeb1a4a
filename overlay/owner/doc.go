// Package owner decides which peer owns a subnet, and acts on it. It holds
// this peer's subnets and takes each through its life:
//
//	            Claim                 Strategy: me
//	(unowned) --------> estimating ----------------> owned
//	                        |  Strategy: another peer    |  a better lease is met
//	                        v                            v
//	                    leaving ------ handover ---> (another's)
//
// It runs an assign.Strategy over what it knows (evidence) and answers the
// crawler's "who fetches next here?". While a subnet is being estimated, one
// request at a time goes there, each to the peer that the strategy names.
//
// The package may import coords and store and its sibling packages lease,
// home, estimate and handover; what it needs of room crawl it declares here
// and is given by room node.
//
// Files: manager.go the Manager and its loop; resolve.go whose is a host;
// decide.go evidence, strategy, choice; leave.go handing over and yielding;
// heir.go taking over; subnet.go one subnet's state.
package owner
