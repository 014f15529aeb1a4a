// Package testnet runs a small network in one process: real peers (package node, with
// libp2p connections, badger stores and HTTP) and synthetic web sites (lab/emulate/web), on
// loopback addresses, with the distances of an emulated wide area between them
// (lab/emulate/wan).
//
// Every protocol, byte and file is real. Emulated are round-trip time, jitter and
// bandwidth of each connection, and DNS. To make a run take a minute and not an hour, it
// shortens the ages at which batches are sent and unclaimed subnets are claimed, and the
// politeness gap.
//
// Run checks its options before it starts anything, writes progress from the first
// second, and returns soon after its context ends.
//
// Files: testnet.go Options, Run; peers.go starting and stopping peers; data.go registry and
// database of places; evaluate.go collecting the figures; content.go those of sites behind content
// networks; report.go the report, its conclusion, and a table of several; paired.go
// comparing them page by page; scenario.go faults during a crawl; site.go one site as a process;
// process.go peers and sites of an emulated network as processes; container.go,
// container_linux.go, container_other.go its number and address in a container; distances.go the
// distances between containers, control.go their changes; collect.go the report of sites in
// containers.
package testnet
