// Package sim simulates a crawl by many peers on virtual time, one event after
// the other: no goroutine, no clock, no network. Equal configurations give
// equal runs, to the last bit.
//
// What is the product's own code: coordinates (coords.Estimator, fed with
// exchanges at the pace of overlay/peers), when a beacon is worth sending
// (coords.Announcer), whose turn it is to be measured, who is to own a subnet
// (assign.Strategy over assign.Evidence), and whether it should move later
// (assign.Reviewer, assign.Watch, assign.History).
//
// What is mirrored in small, as in the product it is bound up with I/O: the
// order of an owner's doings (overlay/owner: one request at a time to a subnet,
// a choice is carried out at once, a scout's page in place of the owner's), the
// pace of the exchanges and beacons (overlay/peers), the politeness gap
// (crawl/pace: the least gap, or ten download times), and the waiting time that
// a beacon tells (crawl/frontier).
//
// What is modelled: a page takes
//
//	connect + first byte + body
//	connect    = RTT, none on a connection that is still warm
//	first byte = RTT + the server's delay + the peer's lag
//	body       = turns·RTT + size/server's bandwidth + size/share of the peer's
//
// where all transfers of a peer share its bandwidth equally, and a peer has a
// number of workers with a queue before them. A subnet has one server.
//
// Files: clock.go events; world.go who is where, and what a page takes;
// line.go shared bandwidth; gossip.go coordinates and beacons; crawl.go the
// life of subnets; fetch.go one download; sim.go what ties it together.
package sim
