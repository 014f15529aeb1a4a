// Package home maintains the records that say which subnet a host belongs to: its home
// subnet. A host with several addresses would otherwise have several owners, which would
// crawl it twice and at twice the polite rate.
//
// A [Record] is signed and stored under /peerd-home/<host> in the DHT. A first record is
// written, given time to settle and read back; a move to another subnet (epoch n+1) is
// signed by the owner of the previous home or, after [Silence], by a rescuing peer, and
// carries its proof. Conflicting records merge by a total order ([Better]) to the same
// one everywhere. This is no consensus: a better record may still appear after a
// partition. The package does not check that the host has an address in the subnet,
// because DNS answers differ by place: package owner decides which records it believes.
//
// A peer that is about to crawl a host must ask the DHT ([Registry.Settle],
// [Registry.Read]); a peer that only routes URLs may use what is in memory
// ([Registry.Cached]). A [Registry] is safe for concurrent use and opens no streams.
//
// The package imports store, overlay/lease, overlay/record, which keeps the records, and
// libp2p's core for keys. docs/protocol/home.md describes the records.
package home
