// Package peers knows the other peers of the network: which are present, their
// coordinates in the space of round-trip times, and their load. It also computes the
// coordinate of this peer, and it is where failures of peers are detected.
//
// Each peer signs a [Beacon] about itself periodically and when something changed. A
// [Directory] holds the beacons of the other peers. A [Service] makes beacons, measures
// round trips to other peers and spreads beacons by exchanges, heartbeats and pushes. In
// a network of more than Config.MaxPeers peers directories are partial
// ([Directory.Partial]); package nearest then finds peers that a directory lacks.
//
// The Directory is also the only place that says whether a peer is alive ([Liveness]):
// Alive, Suspect or Dead, since when, and when the peer was last heard. Whatever comes
// from a peer counts ([MonitorHost]). Failures are detected after SWIM (Das, Gupta and
// Motivala 2002): any failed contact ([Service.ReportUnreachable]) starts a check. If
// neither this peer nor the helpers it asks reach the peer, it is Suspect until it is
// heard again or its lifetime is over. Pairs of peers that depend on each other exchange
// heartbeats ([Service.SendHeartbeat]), which carry what package witness promises.
//
// Guarantees: a beacon is in the directory only if its peer signed it for this network.
// No round trip and no failure is taken from another peer's word. What only one peer has
// told, or peers with a /24 in common, or without a measured distance, is hearsay: at most a
// quarter of the directory, dialed but neither relayed nor shown to other packages. Memory, and
// the traffic per peer and second, are bounded whatever the size of the network.
//
// Callers run one Service per peer and report peers that do not respond. Directory and
// Service are safe for concurrent use.
//
// docs/protocol/peers.md describes the messages and the states of a peer. The package
// imports coords, coords/zone, overlay/prefix, overlay/wire and libp2p.
package peers
