// Package network decides whether this peer's network is up: whether a request that fails tells
// something about its server, or only about this peer.
//
// A [Monitor] has one of three states:
//
//	online --failures without an answer--> suspected --nothing answers--> offline
//	   ^----any answer, or an answer to a check----'                        |
//	   '-----------------------an answer to a check-------------------------'
//
// Failures come from the crawler and from lookups of names. Two of them without an answer in
// between, or an error of this machine such as "network is unreachable", cause a check: servers
// that answered recently, the name servers, the gateway and other peers are asked at the same
// time. A server also answers by refusing a connection. While offline the check is repeated.
//
// A check is as polite as the crawl. It never asks servers that other peers fetch from. It leaves
// out servers that may not be asked now; as long as it could ask none of the others, the peer stays
// suspected, for up to three checks, of which the last asks two of them all the same.
//
// Not every answer shows that web servers can be reached: a gateway also answers if its own
// connection is down, and a name server that then reports failures. Such answers count only while
// few destinations have failed, and no probe shows less than it did while the network was up.
//
// The package guarantees that a destination that fails alone, while others answer, never makes
// the peer offline. It asks the probes a few times after the first answers, and sends nothing else
// while requests succeed. The caller provides the probes, and calls Run.
//
// Files:
//
//	monitor.go   Monitor: evidence and state
//	check.go     asking several destinations at the same time
//	errors.go    what an error says about the network
//	gateway.go   Gateway: the default gateways of this machine
//	names.go     NameServers: the name servers of this machine
package network
