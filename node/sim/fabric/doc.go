// Package fabric is a network in memory whose every fault is at hand: links
// with a latency each, cut one way or both, addresses that freeze, machines
// that die with a reset or without a word, connections that are lost. It
// carries what peers say to each other (Transport, a libp2p transport under
// the real multiplexer) and what they fetch (Host.DialContext, Host.Listen).
// It takes time from package time alone and blocks on channels only, so that
// it works on virtual time in a bubble of testing/synctest.
//
// It imports the standard library and libp2p, nothing of peerd.
//
//	            Cut, Freeze: what was sent waits, and comes when they end
//	dial -----> open ---------------------------------------------> closed
//	   |         | Kill(Reset), Drop: both ends read a reset
//	   |         | Kill(Silent): the other end hears nothing, until
//	   |         |   the address is up again and answers with a reset
//	   +-> refused: the machine is up, nobody listens
//	   +-> waits for its context: cut, frozen, or nobody at the address
//
// Nothing is lost or reordered within a connection, as in TCP: a packet lost is
// latency, of all (Slow) or of some segments and what is behind them (Lossy).
// Bandwidth is not limited.
//
// Files:
//
//	fabric.go    Fabric: links and their faults
//	host.go      Host: one incarnation of a machine; dialling, listening, death
//	conn.go      conn: a net.Conn of two lines
//	line.go      line: one direction
//	transport.go Transport: libp2p over it
package fabric
