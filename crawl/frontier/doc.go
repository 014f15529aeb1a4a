// Package frontier decides which URL of our own hosts is fetched next, and when. It owns
// the politeness clocks: at most one request at a time per host and, at first, per address, a gap
// after each request, and limits on each network of addresses. An address that serves many domains
// and answers steadily gets more at a time. It imports store and canon.
//
// The queues are in the store. The finders of a host's URLs, of which this peer is one, take
// turns; the URLs of a finder are ordered by depth, and within a depth first in, first out. In
// memory are one small record per host, address and subnet, the
// next few entries of each host (about 16 MiB in all), and a heap of addresses by the time
// at which they may be asked again. There is one heap for hosts that this peer claimed and
// one for hosts that other peers handed over.
//
// Callers take a Job with Next, and end it with exactly one call of Release or Return. For
// a request that is not in the queues they take a Reservation, which uses the same clocks.
// Clocks of what is not in the frontier are removed when they are idle.
//
// Files:
//
//	frontier.go  Frontier: adding hosts and URLs, taking and ending jobs
//	server.go    hosts, addresses and the heaps
//	asks.go      the order of hosts at an address with many
//	slots.go     how many requests at a time an address gets
//	clock.go     networks, and requests outside the queues
//	subnet.go    pausing, serializing, adopting and dropping whole subnets
//	hosts.go     hosts that change their address or leave on their own
//	visits.go    when pages are due again
//	turns.go     the finders of a host
//	window.go    reading ahead in the queues
//	wait.go      how long URLs wait for a worker
package frontier
