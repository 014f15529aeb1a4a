// Package crawlsim simulates a crawl by many peers on virtual time, event by event,
// without goroutines, clock or network. Equal configurations give identical runs, to
// the last bit.
//
// Peers decide with their real code: coordinates (coords.Estimator, with exchanges at the rate of
// overlay/peers), when a beacon is worth sending (coords.Announcer), which partner is
// measured next, who is to own a subnet (assign.Strategy over assign.Evidence), and
// whether it should move later (assign.Reviewer).
//
// The following is reimplemented, because the real code depends on I/O: the order of an owner's
// actions (overlay/owner: one request at a time to a subnet, a choice is carried out at
// once, a page of a scout replaces one of the owner), the rate of exchanges and beacons,
// the politeness gap (crawl/pace) and the waiting time in beacons (crawl/frontier).
//
// The time of a page is modelled as
//
//	connect + first byte + body
//	connect    = RTT, or 0 on an open connection
//	first byte = RTT + the server's delay + the peer's lag
//	body       = turns·RTT + size/server's bandwidth + size/share of the peer's
//
// All transfers of a peer share its bandwidth equally, and a peer has a number of workers
// with a queue. A subnet has one server.
//
// Files: clock.go events; world.go places, and the time of a page; line.go shared
// bandwidth; gossip.go coordinates and beacons; crawl.go subnets from claim to end;
// fetch.go one download; known.go delegations; sim.go the simulation.
package crawlsim
