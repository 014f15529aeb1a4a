// Package nearest finds the peers nearest to a web server, by the predicted time of a
// page and the wait at the peer, in a network that is too large for any peer to know all
// of it.
//
// The search starts with the peer's own directory and asks, hop by hop, the peers nearest
// to the server for those that they know (package coords/zone: tables and greedy
// search). All answers are signed beacons, so no peer can invent another peer or its
// coordinate. A peer that sends an invalid answer is left out of the result.
//
// The peers found are added to the directory and stay there for a while, so that the
// strategy has them as candidates. A coordinate is an estimate, and a peer may lie about
// its own; estimations show whether a peer is really near.
//
// Callers pass the directory's Service as Peers and run Serve. All methods are safe for
// concurrent use. docs/protocol/nearest.md describes the messages. The package imports
// coords, coords/zone, overlay/peers, overlay/wire and libp2p.
package nearest
