// Package sim runs complete peers against schedules of faults on virtual time and
// checks what they did against invariants that hold whatever happens.
//
// Each peer is started with node.New and Run, unchanged, with libp2p, its DHT, gossip
// and multiplexer, in a testing/synctest bubble. Through node.Emulation the package
// replaces sockets and encryption (package fabric), badger (an in-memory disk of
// store/kv that can lose unsynced commits), DNS (a table) and the clock that a peer
// shows to others. Sites come from emulate/web; the invariants are checked against
// their request log.
//
// A seed determines the world, the keys, the web and the schedule. It does not
// determine the order in which goroutines run, so two runs of one seed are similar but
// not identical.
//
// Run must be called inside a bubble. PlaySeeds runs many seeds, each in a process of
// its own. The package imports node and everything below it.
//
// docs/protocol/simulation.md describes the faults, the invariants and the limits.
//
// Files:
//
//	options.go      Options, Level
//	schedule.go     Fault, Schedule, NewSchedule
//	reachability.go which peers a fault affects, and which it separates
//	world.go        the world: fabric, sites, machines
//	machine.go      machine: address, disk and clock of a peer, and its process if it runs
//	play.go         Run: the course of a simulation
//	act.go          how each fault is applied and reverted
//	history.go      the events that were observed
//	term.go         which peer owned a subnet at which time, with which replicas
//	judge.go        Result, the invariants
//	epochs.go       invariants of epochs and replicas
//	nearness.go     what a disturbance does to the choice of owners
//	placement.go    whether subnets reach the peers that the strategy chose
//	excuse.go       violations that a fault excuses
//	knowledge.go    which peers must have known that a page was fetched
//	seeds.go        PlaySeeds, RunSeed, PlaySeed
//	report.go       reports of failures and summaries
package sim
