// Package lease maintains the records that say which peer owns a subnet. A [Lease] is
// signed by the owner and stored under /peerd-lease/<prefix> in the DHT. It names the step
// before it by its digest, and carries the last steps with their evidence:
//
//	epoch 1      a claim of a subnet without an owner
//	epoch n+1    a transfer, with the Grant that the owner of epoch n signed
//	epoch n+1    a takeover, with evidence in place of the consent of a silent owner
//
// Whether a lease takes the place of a known one is decided by a [Judge], which knows what this
// peer has seen: a later record of the same step does, a proven descendant does, and a rival that
// may have been made without knowledge of the other, by a total order ([Better]).
//
// A [Registry] is one peer's view of the leases. It guarantees that a claim is settled
// before Claim returns: of several claimants that reach a majority of the DHT replicas
// exactly one wins. A claimant that takes longer than Config.Settle to read and write waits for
// the time in which an owner reads again and yields. It is not consensus; in a partition each side
// may have an owner. Callers must therefore use the epoch as a fencing token, stop at once when
// their lease is replaced ([BeatenError]), and renew a lease at a third of its TTL. An expired
// lease names its owner for [Grace]; then the subnet is free.
//
// Records are checked by pure functions. A record above epoch 1 without matching
// evidence is refused everywhere.
//
// A Registry is safe for concurrent use and opens no streams. The package imports coords,
// store, overlay/record, which keeps the records, and libp2p's core for keys.
// docs/protocol/lease.md describes the life of a lease, what each record proves, and what
// happens in partitions.
package lease
