// Package peers knows the other peers: who is there, where in the space of
// round-trip times, and how loaded. It also finds out where this peer is.
//
// Each peer seals a [Beacon] with its key and gossips it, at the start, when it
// changed enough and every few seconds. Others keep what they heard in a
// [Directory], in which a peer that falls silent expires. A [Service] does both,
// and talks with connected peers over a stream: such an exchange
//
//   - measures the round trip, the least of three small messages, on both ends,
//     and feeds it to the coordinate of both;
//   - tells both their current beacons, and, now and then, those of third peers
//     that one has and the other lacks.
//
// Gossip is quick but lossy and silent to newcomers; the exchange makes up for
// it: whoever joins by one peer learns of all others in the first exchange,
// connects to them, and by the exchanges with them they learn of the newcomer.
//
// An exchange is (A opened it; the pings are as small as can be):
//
//	A                                    B
//	hello{beacon, have}         ----->
//	                            <-----   welcome{beacon, have, others}
//	ping                        ----->
//	                            <-----   pong{coordinate}       A: 1st round trip
//	ping                        ----->                          B: 1st
//	                            <-----   pong                   A: 2nd
//	ping                        ----->                          B: 2nd
//	                            <-----   pong                   A: 3rd
//	done{coordinate, others}    ----->                          (not clocked: it may be long)
//
// Both clock the round trips themselves, so nobody has to believe a time. The
// coordinates in it are without load, as round trips know no load; the one in
// a beacon is with it.
//
// Files:
//
//	config.go    Config, its defaults and checks
//	beacon.go    Beacon, Seal, Open
//	directory.go Directory
//	sync.go      which beacons one side has and the other lacks
//	service.go   Service: New, Run and what can be asked of it
//	announce.go  publishing and hearing beacons
//	exchange.go  the exchange, both ends
//	schedule.go  whom to measure and to connect to, and when
//
// It imports coords, overlay/wire and libp2p.
package peers
