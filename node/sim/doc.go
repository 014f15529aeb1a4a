// Package sim plays whole peers against schedules of faults on virtual time, and
// holds what they did against what must be true whatever happens.
//
// A peer here is node.New and Run as they are, with libp2p, its DHT, its gossip
// and its multiplexer, in a bubble of testing/synctest: time passes when
// everybody waits. What is replaced, all through node.Emulation: sockets and
// their encryption by fabric, badger by a disk in memory (store/kv) that can
// lose what was not synced, DNS by a table, and the peer's clock in what it
// shows to others. The sites are those of emulate/web; their log is the judge.
//
//	NewSchedule(seed)      faults, each with a begin and an end
//	   |
//	start all, wait until all know all, seed the crawl
//	   |
//	faults begin and end ... the last has ended
//	   |
//	wait until nobody has any work, no page is left and each subnet has one owner that
//	runs, for as long as may be; then two minutes at the least, and if a subnet has lost its
//	owner meanwhile, once more as long
//	   |
//	judge: what follows
//
// It must run inside a bubble. It imports node and everything below.
//
// # What may happen
//
//	level  fault       what it is
//	1      kill        the process ends, and starts again; the disk has all that was committed
//	1      power       a power cut: of what was committed and not synced a random part is lost
//	1      pause       nothing gets in or out of a machine, nothing is synced
//	1      split       two parts of the peers do not hear each other, up to 90 s
//	1      long-split  two halves of them, for 2 to 5 minutes
//	1      one-way     some are not heard by the others, and hear them
//	1      offline     a peer hears neither peers nor sites
//	1      slow        all from and to a peer takes up to 3 s longer
//	1      lossy       2 to 30 % of what is sent from and to a peer is lost and sent again
//	1      drop        all connections of a peer are reset
//	1      full        each commit fails for want of room
//	1      slow-disk   each sync takes 0.7 s
//	1      leave       a peer hands all over, ends, and comes back
//	1      (clocks)    in one seed of three, wrong by up to 2 minutes
//	2      loss        a machine is gone for good, disk and all; one a seed, or
//	2      wiped       it comes back under its key with an empty disk
//	3      move        a site moves to the subnet of another; one a seed
//
// Up to eight in 90 s, of any kinds, of any length, also at once. Each level has
// those of the lower ones. Level 0 has none.
//
// # What must be true
//
//   - Every page is fetched, nothing is asked for that robots.txt forbids.
//   - In the end each subnet has one owner, under the highest epoch that there ever
//     was, and a shadow that runs. No epoch shrinks at a peer.
//   - No two peers ask a subnet's servers under one epoch, and nobody does under an
//     earlier one than somebody before. The sites ask who sends each request what it
//     holds at that moment. Only while some cannot hear others, and for two
//     minutes after, may that be (leases say who yields then).
//   - No page is fetched twice, no pause of a server is cut short, but by an excuse: it was
//     under way, or not yet synced, when the peer was hit that fetched it or for
//     whom, or could not be stored there for want of room; or those two could not hear each other; or the subnet went to
//     somebody who could not know. For that the judge follows who must know of the page: its
//     owner, whoever it was given to, and each shadow with a complete copy that for
//     30 s after was neither hit itself nor cut off from the owner. If one of these was in
//     reach when another took over without knowing, there is no excuse. A clean
//     leave, a kill of somebody else, a cut between others excuse nothing.
//
// # What was played
//
//	go test ./node -run Sim -args -seed N -seeds COUNT -level L
//
// With this judge and these faults (2026-11):
//
//	level  seeds      passed  failed
//	1      1-600      600     0
//	2      1000-1599  600     0
//	2      2000-2399  398     2
//	3      1-100      100     0
//
// 2149: three pages that an estimator fetched in the instant in which a split healed were
// fetched again by who owned them afterwards; most likely the judge lacks one of two
// owners. 2299: 1 page is missing. Its owner was killed for 24 s, meanwhile one shadow was
// offline, then the other split off, and 6 s after its restart the owner's disk was lost: both
// copies were old. It fails in one play of five. Level 2's first row was played before the
// last changes of package homing.
//
// On the way there these came to light, each in one seed of some hundreds: 1096, a peer back under its key with an empty disk held nothing
// and was heard, so that subnets stood still for good (owner/remind.go). 1121 and
// 1132, an owner that came back ended the copy that was just being taken over, and a
// lease stood with nothing behind it (shadow/pin.go). 1192, a write to the DHT that had
// been given up showed later, and nobody acted upon it. 1300, two claims of one subnet
// broke a pause. 1513, an owner without its disk did not wait for a shadow that was cut
// off. Level 3, 60: a site that had moved before anything was fetched there was
// given up. Where the judge was wrong it was put right: 245, 260, 1137; level 3, 14.
//
// # What replays
//
// A seed decides the world, the keys, the web, the schedule. It does not decide the
// order in which Go's scheduler runs goroutines of one instant, nor the numbers
// that the peers draw from the runtime's generator (jitter of pauses, the order
// of maps). So a seed plays the same faults against the same world each time,
// and the peers' paths through them are near each other and not the same. Measured
// (one thread, no preemption by time): of the lines of two histories of a seed
// about half are equal to the second, who owns what differs from the first
// minute on. A violation that comes of the schedule comes again in most plays (5 of
// 6 and 3 of 3 were seen); one that needs a race of two messages may take many.
//
// # What is not simulated
//
// A pause stops what a peer hears, says and syncs, not its timers, reads and
// commits (kad-dht holds a mutex over these, and time does not pass in a bubble
// while somebody waits for a mutex; for the same reason a slow disk is slow to
// sync and not to commit). Clocks differ by
// an offset, not by rate; the offset is in leases, homes and beacons, not in
// what a peer keeps for itself. Connections are never corrupted, and within one
// nothing is lost or reordered, as in TCP.
//
// Files:
//
//	options.go   Options, Level
//	schedule.go  Fault, Schedule, NewSchedule
//	reach.go     whom a fault hits, and keeps from whom
//	world.go     the world: fabric, sites, machines
//	machine.go   machine: a peer's address, disk, clock, and its process if any
//	play.go      Run: what happens when
//	act.go       what each fault does, and undoes
//	history.go   what happened, as the harness saw it
//	term.go      who held a subnet when, with which shadows; under what it was fetched
//	judge.go     Result, the invariants
//	epochs.go    those of epochs and shadows
//	excuse.go    what a fault excuses
//	knowledge.go who must have known of a page
//	report.go    a failure, or many simulations, for people
package sim
