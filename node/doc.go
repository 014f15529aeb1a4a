// Package node is the one place where the rooms meet: it builds a peer out of
// store, coords, overlay and crawl, runs it, and tells the admin API how it is.
//
// A Node is built bottom-up by New, which starts nothing but the libraries'
// own goroutines:
//
//	store -> overlay.Net -> leases, homes -> peers.Service
//	      -> fetcher, resolver, scope -> owner.Manager -> frontier -> crawler
//	      -> forwarder -> protocol handlers -> admin API
//
// Run runs all of it in one group and takes it down in the opposite order.
//
// Files: node.go New and Run; open.go how each part is made; options.go what it takes; bridge.go adapters
// where one room's interface and another's method differ, and nothing else;
// memory.go what a home remembers: its network, the peers met; strategies.go
// names of strategies and the data that they need (from geo and registry);
// rules.go a profile in room crawl's words; room.go whether there is room on the
// disk; status.go the view of the admin API; seed.go URLs from outside; guards.go shadows and witnesses; balance.go limits, and
// uptime.go what the machine says of itself; drain.go a
// stop that hands everything over first; crawl.go
// a network of one, and reading a store that no peer has open; export.go reading
// the archive.
package node
