// Package overlay connects this peer to one peerd network: it builds and ends together
// the libp2p host, the private Kademlia DHT and the gossip. Packages below it define the
// messages; this package knows none of them.
//
// A [Net] is built by [New], which opens the listening sockets. [Net.Run] keeps it
// connected: first to the bootstrap peers, then, while it is alone, to peers known from
// earlier runs. It keeps trying the bootstrap peers and lost members, with increasing
// delay, so that the parts of a partitioned network find each other. [Net.Bootstrap]
// reports the state of the bootstrap addresses. [Net.Close] ends everything.
//
// Every protocol identifier, topic and DHT prefix contains the network's identifier
// ([Names]), so that peers of different networks share nothing. A peer of another
// network that connects, or is dialed, is logged once, disconnected, and tried again
// only with increasing delay.
//
// The DHT finds peers. [Values] reads and writes records at those nearest to their keys.
//
// Packages receive what they need - a host, a topic, Values - from their caller. This
// package imports overlay/wire and libp2p. docs/protocol/overlay.md describes joining.
package overlay
