// Package replica keeps exact, up-to-date copies of a subnet at other peers. The same
// mechanism, a snapshot followed by the records of the owner's change log, serves
// replicas that wait for the failure of the owner, successors in a handover, and former
// owners that remain as replicas.
//
// A [Service] is both sides: as owner it has one stream to each peer that follows any of
// its subnets, and as replica it serves the streams of other owners. It owns the protocol
// and, in the store, the records of subnets in store.PhaseReplica and the data below
// "replica/". It does not decide which peers follow or which peer becomes owner: that is
// for the [Policy], which package owner implements. It imports only store and
// overlay/wire.
//
// Guarantees:
//
//   - An acknowledged change is on the replica's disk.
//   - No replica is ahead of its owner's disk.
//   - A copy is Complete only if it was the owner's state at Pos, but for hosts that this peer
//     has in a subnet of its own. When these have left, the copy starts again.
//   - A complete copy at the base of a new owner's log continues without a snapshot.
//   - The log is trimmed to what all followers have. A follower that has failed for a
//     minute, or lags by 16,384 records, does not prevent trimming.
//   - A Flush waits for two Syncs and the frames in flight, not for a snapshot.
//   - Memory is bounded by a window of 4 MiB per link at the owner, one frame at the
//     replica, and a few hundred bytes for each follower or copy besides its lease.
//   - Messages of other peers are checked and bounded; an owner can only change copies of
//     subnets of which the Policy accepts its lease.
//
// docs/protocol/replica.md describes the protocol, the states of a follower, how a
// hanging link is detected, and what a malicious peer can do.
package replica
