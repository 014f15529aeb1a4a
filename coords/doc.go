// Package coords places peers and web servers in one space whose distances are
// round-trip times, and predicts from it how long a download will take.
//
// A peer runs an [Estimator]: it is fed with round trips to other peers and
// moves the peer's own [Coordinate] until distances agree with what was
// measured. A web server runs none of our code; [Locate] computes its place, a
// [Proxy], from the download times ([Sample]) that several peers observed.
// Which peer should crawl which server is decided in the sub-package assign;
// who holds which addresses is read in registry.
//
//	est, err := coords.NewEstimator(cfg)       // one per peer
//	err = est.Observe(id, remote, rtt)         // for each exchange with a peer
//	proxy, err := coords.Locate(samples, fit)  // for each server, when asked
//	t := proxy.Predict(est.Coordinate(), 20_000)
//
// Everything here is a pure computation: no clock, no network, no goroutine,
// no lock, no randomness but the source handed in. Nothing is safe for
// concurrent use unless it says so. The package imports the standard library
// only, and of it neither context, log/slog, net, net/http, os nor sync; so do the
// others of the room, but for registry, which takes its longest-prefix match and
// its arithmetic of address ranges from libraries that are as pure.
//
// # Units
//
// time.Duration at the edges, float64 milliseconds inside. Sizes are bytes at
// the edges and kB (1,000 bytes) inside.
//
// # Sources
//
//	[1] Dabek, Cox, Kaashoek, Morris: Vivaldi: A Decentralized Network
//	    Coordinate System, SIGCOMM 2004 (the update, height vectors: 5.4).
//	[2] Ledlie, Gardner, Seltzer: Network Coordinates in the Wild, NSDI 2007
//	    (latency filter, update filter, gravity).
//	[3] Seibert, Becker, Nita-Rotaru, Zage: Newton: Securing Virtual
//	    Coordinates by Enforcing Physical Laws, ICDCS 2012 (rejection of forces
//	    far above the median).
//	[4] Ledlie, Seltzer, Pietzuch: Proxy Network Coordinates, Imperial College
//	    TR 08/4 (placing a target that takes no part).
//	[5] Malet: Distributed web crawling using network coordinates, 2009
//	    (download time as distance, load in the coordinate).
//
// # Files
//
//	coordinate.go   Coordinate: distance, checks, load
//	config.go       Config of an Estimator
//	estimator.go    Estimator: the Vivaldi update over all neighbours, load
//	neighbour.go    what an Estimator remembers of each peer: the percentile filter
//	outlier.go      how much each neighbour counts; cutting those far from the usual
//	partners.go     ChoosePartners: whom to keep measuring, half near, half random
//	stability.go    Announcer: when a coordinate moved enough to be told
//	sample.go       Sample: one observed download
//	traits.go       Traits: what distance does not explain
//	traits_layout.go what the numbers of Traits mean, and their bounds
//	traits_fit.go   LocateTraits: a server among the factors; forecasts
//	learner.go      Learner: what a peer learns of itself from its downloads
//	learner_fit.go  the regression behind it
//	digest.go       Digest: the samples of a server, denoised and comparable
//	proxy.go        Proxy and Locate: the place of a server
//	fit.go          the robust least squares behind Locate
//	stats.go        medians
package coords
