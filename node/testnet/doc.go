// Package testnet runs a whole small network in one process: real peers
// (package node, with real libp2p connections, badger stores and HTTP) and
// synthetic web sites (emulate/web), all on loopback addresses, with the
// distances of an emulated wide area between them (emulate/wan). It says what
// came of it as an emulate.Report.
//
// What is real: every protocol, every byte, every file. What is emulated: the
// round-trip time, jitter and bandwidth of each connection, and DNS. What is
// shortened, so that a run takes a minute and not an hour: the ages at which
// batches leave and nurseries claim, and the politeness gap.
//
// Files: testnet.go Run; peers.go starting and stopping peers; data.go what they
// are told about addresses; collect.go the figures; scenario.go what may happen
// during a crawl, and what comes of it.
package testnet
