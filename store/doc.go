// Package store is the durable half of a peer: one database that holds
// everything that must survive a kill -9, and the nouns that persist or travel.
// Below it is store/kv: badger, or a disk in memory for simulations and tests,
// which can be killed, cut off, filled, stopped and slowed (Options.Disk).
//
// It owns the key spaces (keys.go) and the transactions over them; it imports
// no other room and knows nothing of peers, sockets or HTML.
//
// Files:
//
//	url.go       URL, Digest, SubnetOf: names of things on the web
//	outcome.go   Outcome, Timing: how a fetch ended and where its time went
//	types.go     Host, Entry, Pending, Page, Subnet: the records
//	keys.go      every key space in one list
//	db.go        Open, Close, Run, View, Sync
//	engine.go    what is below: the version on disk, how large values may be
//	batch.go     Update and Batch: one writer, many callers in one commit
//	seen.go      a cache in front of the seen-set
//	frontier.go  the queues of our own hosts, and the set of URLs seen there
//	pending.go   URLs of hosts that are not ours: outbox and nursery at once
//	pages.go     what this peer fetched
//	visits.go    when the owner of a host comes back to its pages
//	subnets.go   the subnets this peer owns or is about to own, the hosts of one;
//	             export, import
//	tail.go      the log of a subnet's changes, for its replicas
//	tail_capture.go  what a transaction logs
//	tail_op.go, tail_codec.go  Op, one change, and records of them
//	tail_apply.go, tail_absorb.go  Apply, Absorb: changes at a replica
//	tail_walk.go     Snapshot: the state of a subnet, piece by piece
//	tail_outlinks.go what a subnet's pages link to and waits for its owner
//	tail_cross.go    and what of it waits in another subnet of this peer
//	movehost.go  a host gets another home
//	meta.go      counters, places in queues, small named values, data of overlay
//
// # Durability
//
// Update and each function of a Batch are atomic: after a crash of the process
// either all of it is there or nothing. What DropHost deletes goes in pieces. A crash of the machine may lose what was written since
// the last Sync; whoever acknowledges something to another peer calls Sync
// first.
//
// # Replicas
//
// The owner of a subnet has its changes logged: each transaction that touches
// its hosts appends one record (or more, if it is very long) of Ops, in the same
// commit. An Op says what a key holds now, not what was done, so that a replica
// may take it in twice, and a snapshot need not be of one moment:
//
//	owner                                               replica
//	StartTail(p, log, base)
//	View: TailHead = s, Snapshot(p, nil)  -- piece --->  DecodeOps, Absorb
//	Tail(p, s): records                   -- record -->  DecodeOps, Absorb
//	View: Snapshot(p, cursor)             -- piece --->  ...
//	...
//	Tail(p, ...)                          -- record -->  has all: s, cursor, place are
//	TrimTail(p, through)                  <-- has ----   in its Subnet record, by Absorb's also
//
// A piece read in a View whose head is h must be applied before the records
// behind h; nothing else matters for the order. Behind the last piece, from the
// largest h on, the replica has after each record what the owner had after that
// transaction. Pieces also clear what they know to be gone, so a snapshot may be
// begun over whatever the replica has; a log that broke or grew beyond
// Options.TailMax needs no more than that.
//
// With its hosts a subnet has its out-links: URLs that its pages brought and
// that wait in this peer's put-aside table for other owners (Pending.Home), and
// those that they brought into the queues of other logged subnets of this peer
// while the logs there have not been trimmed behind them. A replica keeps them
// apart until PromoteOutlinks. So at no moment is there a URL known to no
// replica while the page that brought it is known to be done.
//
// A host that changes its subnet leaves the one log and enters the other with
// all that it has; one that has more than goes into a transaction breaks the log
// that it enters. Host.Since tells a replica of both, which reads the two logs
// at different paces, where the host is.
//
// On a disk with less than 64 MiB left nothing is written: Update and Batch
// fail with ErrFull, have changed nothing, and work again when there is room.
//
// # Virtual time
//
// On a kv.Disk all of it runs within a bubble of testing/synctest, in which it
// must then have been opened too. While the disk is stopped or slow, who waits
// for it lets time go on; but not who waits for a sync.Mutex whose holder does,
// so nobody may hold one across a call.
package store
