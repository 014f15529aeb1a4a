// Package fabric is an in-memory network with faults that can be injected: links with
// individual latencies, cuts in one or both directions, frozen addresses, machines that
// die with or without resetting their connections, and dropped connections. It carries
// messages between peers (Transport, a libp2p transport below the real multiplexer) and
// fetches (Host.DialContext, Host.Listen). It takes time only from package time and
// blocks only on channels, so that it works on virtual time in a testing/synctest
// bubble.
//
// It imports the standard library and libp2p, nothing of peerd.
//
//	            Cut, Freeze: sent data waits and arrives after they end
//	dial -----> open ---------------------------------------------> closed
//	   |         | Kill(Reset), Drop: both ends read a reset
//	   |         | Kill(Silent): the other end receives nothing until
//	   |         |   the address is up again and answers with a reset
//	   +-> refused: the machine is up, nothing listens on the port
//	   +-> waits for its context: cut, frozen, or no machine at the address
//
// Nothing is lost or reordered within a connection, as in TCP: a lost packet becomes
// latency, of all segments (Slow) or of some segments and those behind them (Lossy).
// Bandwidth is not limited.
//
// Files:
//
//	fabric.go    Fabric: links and their faults
//	host.go      Host: one incarnation of a machine; dialling, listening, death
//	conn.go      conn: a net.Conn made of two lines
//	line.go      line: one direction
//	transport.go Transport: libp2p over a fabric
package fabric
