// Package coords places peers and web servers in one space in which distances are
// round-trip times, and predicts download times from it.
//
// A peer runs an [Estimator], which moves the peer's own [Coordinate] until distances
// agree with the round trips measured to other peers. A web server does not take part;
// [Locate] computes its position, a [Proxy], from the download times ([Sample]) that
// several peers observed. A [Learner] learns the [Traits] of a peer: what a page takes there
// in addition. Package assign decides which peer crawls which subnet.
//
// The package is pure computation: it has no clock, network, goroutine or lock, and no
// randomness except the source passed in. Types are not safe for concurrent use unless
// documented otherwise. It imports only the standard library, and none of context,
// log/slog, net, net/http, os and sync. The same holds for its sub-packages, except that
// registry also imports libraries for longest-prefix match and address ranges.
//
// Public functions use time.Duration and bytes; internally times are float64
// milliseconds and sizes are kB (1,000 bytes).
//
// See docs/protocol/coordinates.md for the model and its constants. Comments cite these
// sources by number:
//
//	[1] Dabek, Cox, Kaashoek, Morris: Vivaldi: A Decentralized Network
//	    Coordinate System, SIGCOMM 2004 (the update; height vectors: 5.4).
//	[2] Ledlie, Gardner, Seltzer: Network Coordinates in the Wild, NSDI 2007
//	    (latency filter, update filter, gravity).
//	[3] Seibert, Becker, Nita-Rotaru, Zage: Newton: Securing Virtual
//	    Coordinates by Enforcing Physical Laws, ICDCS 2012 (rejection of
//	    forces far above the median).
//	[4] Ledlie, Seltzer, Pietzuch: Proxy Network Coordinates, Imperial
//	    College TR 08/4 (placing a target that does not take part).
//	[5] Malet: Distributed web crawling using network coordinates, 2009
//	    (download time as distance, load in the coordinate).
package coords
