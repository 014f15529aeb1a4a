// Package chaos runs real peers, one process each, on real sockets while a script kills
// them, stops them and cuts connections between them. It judges the crawl by the sites' logs.
//
//	peerd-lab chaos --peers 8 --sites 40 --for 10m --seed 7 --scenario all
//
// The sites (lab/emulate/web) run in this process and identify a peer by the contact URL in
// its User-Agent. After the script, all peers except lost ones run until no peer
// has work left. [Run] fails if a check fails. If its context ends
// first, it reports the figures so far. A seed decides the script; the outcome varies.
//
//	scenario   what the script does                     must hold besides politeness
//	kills      kill -9 of three peers of eight,         coverage 1, overlap <= 0.5 %
//	           which restart, again and again
//	lost       kill -9 of one peer, home deleted        coverage 1, takeover in 60 s, no page
//	                                                    again that it had 30 s before
//	partition  half | half for --cut, then healed       coverage 1, overlap <= 2 %,
//	                                                    one owner in 2 min
//	leave      peerd stop of one peer for good          coverage 1, overlap 0, 5 s idle
//	mixed      kills, SIGSTOPs, cuts of pairs, stops    as partition
//	all        each of them in turn
//
// Cuts need network namespaces: Run starts a child in namespaces of its own (package
// lab/emulate/netns). Without them, peers and sites share loopback and nothing is cut.
//
// Files: chaos.go options, which scenarios to run, the child; network.go
// addresses and cuts; peer.go a peer's process and home directory; script.go the
// steps of a seed; start.go starting the peers; run.go one run; watch.go periodic
// polls of the peers; history.go steps, looks and hits; judge.go and faults.go the
// figures; report.go checks and the report.
package chaos
