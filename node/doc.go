// Package node builds and runs a peer. It is the only package that connects the layers:
// store, coords, overlay and crawl. It also implements the admin API.
//
// New builds a Node bottom-up. It starts only the goroutines of libraries:
//
//	store -> overlay.Net -> leases, home records -> peers.Service
//	      -> fetcher, resolver, scope -> owner.Manager -> frontier -> crawler
//	      -> outbox -> protocol handlers -> admin API
//
// Run runs all parts in one group, stops them when the first fails or the peer is stopped,
// and closes them in the opposite order. No goroutine remains.
//
// Files:
//
//	node.go         New and Run, with options.go; open.go how each part is built
//	adapters.go     adapters between the interfaces of the layers
//	confirm.go      whether peers known for long agree about a home record
//	failover.go     replicas and witnesses; ownermap.go the owner map and its storage
//	traits.go       what this peer learns about itself as a downloader; gain.go what the choice
//	                of owners gains; uptime.go for how long the machine runs
//	homestate.go    what a home remembers: its network and the peers met
//	network.go      what the network monitor asks, and what happens after an outage
//	webconns.go     the open connections to web servers; unacked_*.go when they are given up
//	records.go      storage of DHT records; givenup.go URLs that were given up
//	strategies.go   strategies and the data that they need; rules.go the rules of a profile
//	limits.go       limits of a peer; space.go free space on the disk; traffic.go all traffic
//	sandbox.go      the files that the process may open
//	seed.go         URLs from outside; pings.go notices of sites; optout.go sites that opt out
//	status.go       the views of the admin API; measure.go what package metrics exports
//	drain.go        a stop that hands everything over first
//	crawl.go        one-shot crawls; seedoutcome.go the result of their seeds
//	export.go       reading the archive, as get.go and replay.go; refetch.go what it has lost;
//	                search.go the index
//	collect.go      copying what other peers archive; mirror.go copies of archives
//	health.go       how the peer is; journal.go, journalfile.go, view.go, placement.go the
//	                dashboard; trace.go what happened to a URL
//	eventlog.go     the event log; spans.go spans for a collector of traces
//	reload.go       settings that change; pause.go pauses; plugins.go plug-ins; localsites.go
//	                sites on this machine
//	web.go, own.go, deny.go, robots.go: limits on requests; admission.go who joins
package node
