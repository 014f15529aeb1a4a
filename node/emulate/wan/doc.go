// Package wan is a wide-area network in user space: it says how far apart
// places are (World) and makes real loopback TCP connections behave as if
// their ends stood there (Network). It needs no privilege and no kernel
// support, and imports only the standard library.
//
// A connection is emulated by the end that dials. Both directions are delayed
// by half the pair's round-trip time plus jitter and are limited to the pair's
// bandwidth; the dial itself takes one round trip. Order is kept. Bandwidth is
// per connection: two connections of one pair do not share it, and there is no
// slow start and no loss. UDP is not emulated.
//
// Delays are exact to what the runtime's timers give, usually about a
// millisecond on an idle machine; a busy machine adds its own.
//
// Files:
//
//	place.go     Place, Cities: the built-in table of cities
//	world.go     World, Link: round trips, jitter and bandwidth of every pair
//	hash.go      the deterministic numbers that a World is made of
//	globe.go     Globe: where the places are on the earth, also those of a matrix
//	matrix.go    LoadMatrix: measured round trips from a text file
//	plan.go      NewPlan: which place each peer and each site gets
//	network.go   Network: which address stands where; dialling
//	conn.go      Conn: a net.Conn over two lines
//	line.go      line: one direction, a queue ordered by due time
//	deadline.go  deadline: a time as a channel that can be moved
package wan
