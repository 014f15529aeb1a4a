// Package nearest finds the peers that a web server is nearest to, by the
// predicted time of a page and the wait at the peer, in a network that is too
// large for anybody to know all of it.
//
// The searcher begins with its own directory and asks, hop by hop, the peers
// nearest to the server whom they know there (package coords/zone: tables and
// the greedy search). Everything it is told is a sealed beacon, so nobody can
// invent a peer or its place; who answers wrongly is not believed in anything.
//
//	searcher                        a peer near the target
//	ask{target, k}         ----->
//	                       <-----   answer{found: k sealed beacons} or {refused}
//
// What was found enters the directory and stays there for a while, so that the
// strategy has it among its candidates. Whether it is truly near, the usual
// estimations show: a coordinate is a guess, and a peer may lie about its own.
//
// Files:
//
//	messages.go what is said, and its bounds
//	nearest.go  Service: the search, and answering
//
// It imports coords, overlay/peers, overlay/wire and libp2p.
package nearest
