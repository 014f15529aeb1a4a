// Package wan emulates a wide-area network in user space: World has the latency,
// jitter and bandwidth between places, and Network makes real loopback TCP connections
// behave as if their ends were at these places. It needs no privileges and no kernel
// support.
//
// The end that dials emulates the connection. Both directions are delayed by half the
// pair's round-trip time plus jitter and limited to the pair's bandwidth; the dial itself
// takes one round trip. Order is preserved. Bandwidth is per connection: two connections
// of one pair do not share it. There is no slow start and no loss. UDP is not emulated. A
// cut holds back what is sent until the places are connected again, as TCP does by
// repeating it.
//
// Delays are as precise as the runtime's timers, usually about a millisecond on an idle
// machine, and longer on a busy one.
//
// Files:
//
//	place.go     Place, Cities: the built-in table of cities
//	world.go     World, Link: round trips, jitter and bandwidth of every pair
//	hash.go      the deterministic numbers of a World
//	globe.go     Globe: positions of the places on the earth, also for a matrix
//	matrix.go    LoadMatrix: measured round trips from a text file
//	plan.go      NewPlan: assigns places to peers and sites
//	network.go   Network: places of addresses; dialling
//	conn.go      Conn: a net.Conn over two lines
//	line.go      line: one direction, a queue ordered by due time
//	deadline.go  deadline: an adjustable deadline as a channel
package wan
