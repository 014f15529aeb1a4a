// Package store is the durable half of a peer: one badger database that holds
// everything that must survive a kill -9, and the nouns that persist or travel.
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
//	batch.go     Update and Batch: one writer, many callers in one commit
//	seen.go      a cache in front of the seen-set
//	frontier.go  the queues of our own hosts, and the set of URLs seen there
//	pending.go   URLs of hosts that are not ours: outbox and nursery at once
//	pages.go     what this peer fetched
//	visits.go    when the owner of a host comes back to its pages
//	subnets.go   the subnets this peer owns or is about to own, the hosts of one;
//	             export, import
//	meta.go      counters, places in queues, small named values, data of overlay
//
// # Durability
//
// Update and each function of a Batch are atomic: after a crash of the process
// either all of it is there or nothing. What DropHost deletes goes in pieces. A crash of the machine may lose what was written since
// the last Sync; whoever acknowledges something to another peer calls Sync
// first.
package store
