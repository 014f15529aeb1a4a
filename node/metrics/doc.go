// Package metrics exports the state of one peer to Prometheus.
//
// A [Set] holds the metrics of a peer in a registry of its own, so that a process may hold several
// peers. Its Handler serves them. Nearly all of them are read from the [Peer] when they are asked
// for: nothing is counted twice, and a peer that nothing asks pays nothing. What was read is served
// for a second, so that many scrapes cost little more than one a second. Only what no other part of
// the peer keeps is counted here, when a request to a web server has ended: outcomes, the durations
// of its phases and how well they were predicted.
//
// Conventions: names begin with peerd_, units are seconds and bytes, counters start at 0 with the
// process and end in _total. Labels have few values, all known in advance: never a host, a peer
// or a subnet. Every series exists from the start, except those of protocols and marks that did
// not occur yet. libp2p's own metrics are a setting; see docs/monitoring/README.md.
//
// Files:
//
//	state.go    State, what is read from a peer
//	table.go    the metrics that are made of it, one row each
//	set.go      Set: the registry and the handler
//	fetches.go  the metrics of requests
package metrics
