// Package peers knows the other peers: who is there, where in the space of
// round-trip times, and how loaded. It also finds out where this peer is.
//
// Each peer seals a [Beacon] with its key, at the start, when it changed enough
// and every few seconds; the more peers it knows, the seldomer, and the beacon
// says how often. Others keep what they heard in a [Directory], in which a peer
// that falls silent expires, later if it speaks seldom. A [Service] does both,
// and talks with connected peers over a stream: such an exchange
//
//   - measures the round trip, the least of three small messages, on both ends,
//     and feeds it to the coordinate of both;
//   - tells both their current beacons, and those of third peers that one has
//     and the other lacks, or has older: each side sends a digest of what it has,
//     of a part of the peers in turn where they are many.
//
// Every few seconds each peer has one exchange, with a near and a random partner
// in turn. By these alone beacons reach everybody, each once, in about log n
// turns; a flood would bring each several times. What has changed is told at
// once to a few near connected peers, and in a network of up to sixteen to
// everybody. Whoever joins by one peer learns of all others in the first
// exchanges, connects to them, and by the exchanges with them they learn of the
// newcomer.
//
// A network of up to Config.MaxPeers peers is known to all of its members, and
// up to Config.MaxConns they are all connected. In a larger one a directory is
// partial ([Directory.Partial]): it keeps near peers, one of each zone and random
// ones (package coords/zone), and each peer connects to some partners only. What
// an exchange tells and what a peer hears in a second is then bounded whatever
// the size of the network; package nearest finds those that are not known.
//
// An exchange is (A opened it; the pings are as small as can be):
//
//	A                                    B
//	hello{beacon, wish}         ----->
//	                            <-----   welcome{beacon, wish, others}
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
// Long before it expires, a peer that has failed is found out (after SWIM, Das,
// Gupta and Motivala 2002). The failure of an exchange or a dial, the end of a
// connection, a third of its life spent in silence (in a network small enough to be
// told at once), somebody's word, or the silence of one to whom somebody here talks for
// a reason of his own ([Reaching]) is reason for a doubt: a check.
//
//	                 doubt              no answer, and none of 3 others
//	    +-------+ ----------> checking ------------------------------> suspect
//	    | alive |                |                                        |
//	    +-------+ <--------------+                                        |
//	        ^      it answers, or another reaches it                      | silent for
//	        |                                                             | all its life
//	        +--- heard itself, or a beacon of it made since --------------+---> gone
//
//	A                                    B (the one in doubt, or a helper)
//	hello{ask{target}}          ----->   helper: probes the target, if it is in its own
//	                            <-----   said{reached, latest}      directory, once for all who ask
//
// A suspect is not in [Directory.All], nor passed on to others, but its connection is
// still tried, and what is heard of it since refutes. Nobody else is believed
// that a peer is dead: exchanges name a few suspects, and whoever hears that looks
// for himself, as in a partial view only few have a connection that can fail; the
// suspect itself answers with a beacon. Nothing of all this is said while nobody
// fails.
//
// Whoever gets no answer from any helper decides nothing, as it may be cut off
// itself; so does one that misses more than half of all it knows and has but one
// helper to confirm it.
//
// Files:
//
//	config.go    Config, its defaults and checks
//	beacon.go    Beacon, Seal, Open
//	directory.go Directory
//	suspects.go  the Directory's suspects
//	check.go     doubts, and what becomes of them
//	reach.go     doubts of those who deal with single peers
//	ask.go       asking a peer, or others about it, both ends
//	sync.go      digests and wishes: which beacons one side has and the other lacks
//	service.go   Service: New, Run and what can be asked of it
//	announce.go  making, telling and hearing beacons
//	exchange.go  the exchange, both ends
//	schedule.go  whom to measure and to connect to, and when
//	size.go      how many bytes it costs, for reckoning
//
// It imports coords, coords/zone, overlay/wire and libp2p.
package peers
