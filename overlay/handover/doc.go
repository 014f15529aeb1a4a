// Package handover moves a subnet with all its data - hosts, queue, seen URLs, visits,
// robots.txt, crawl delays, out-links - to its next owner, the successor. It owns the
// protocol and the order of the steps. Package replica copies the data: the successor
// follows the subnet like any replica.
//
// Guarantees:
//
//   - At no time do two peers own the subnet.
//   - At every time at least one peer has all of its data.
//   - If the stream breaks before the commit, the subnet stays with its owner
//     ([ErrBroken]). If it breaks after, the owner repeats the offer until the successor
//     answers ([ErrOutcomeUnknown]).
//   - The successor's log continues the owner's, so that the former owner and its
//     followers can be replicas of the successor without a snapshot.
//
// The owner pauses the subnet before [Sender.Send], and must have written that it has
// given the subnet away when its grant function returns. docs/protocol/handover.md shows
// the messages. The package imports store, overlay/replica and overlay/wire.
package handover
