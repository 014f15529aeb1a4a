// Package ownermap holds what a peer knows about decided subnets: the owner of each, and
// where its servers are (the proxy coordinate in the lease). Strategies read it to find
// the neighbours of a subnet that is to be assigned.
//
// Owners announce their leases by gossip: at once when one changes, otherwise again and
// again at a rate that all peers share (Config.RepeatRate). A peer checks each
// announcement, keeps what is new and relays it.
//
// The map is a hint. A subnet that it lacks may have an owner; package lease decides
// ownership. Memory is bounded: when the map is full, it evicts the subnet that was
// announced least recently. A [Store] keeps it across restarts.
//
// A caller provides the leases of this peer (Node.OwnSubnets) and calls Run once. All
// methods are safe for concurrent use; a snapshot ([Map.Known]) never changes.
//
// docs/protocol/ownermap.md describes the messages and which of them are rejected. The
// package imports coords, coords/assign, overlay/lease and overlay/wire. It joins its
// topic over the PubSub passed to it and opens no streams.
package ownermap
