// Package pace computes how long to leave a server alone after a request, and whether it is
// overloaded, from how long its answers take. Of this module it imports only packages of
// internal. It reads no clock and performs no I/O.
//
// The pause is a multiple of the download time (Mercator, Heydon and Najork 1999, section
// 3.2: ten times; Malet 2009, section 2.1.2, calls it 10κ). Distant or busy servers are
// therefore asked less often.
//
// The pause is longer if a server has become slower than usual while other servers have not:
// then the server is overloaded rather than the connection of this peer. This is the part of
// a server "moving away from all peers" (Malet 2009, section 5.1.3) that one peer can
// observe and act on at once.
package pace
