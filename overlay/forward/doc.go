// Package forward brings URLs to the owners of their hosts.
//
// # Guarantee
//
// At least once, and nothing is forgotten before somebody else has it on disk:
// a URL of a foreign host is put aside in the store (store.Tx.Defer) in the
// same transaction as the page it was found on; it leaves the store only when
// its owner has acknowledged the batch it travelled in, or when it entered one
// of our own queues. The receiver stores, syncs, then acknowledges. A batch
// that arrives twice changes nothing, because queues and the put-aside table
// know each URL once. What cannot be delivered waits.
//
// # How
//
// A host that is not in our frontier is in one of these states:
//
//	unresolved  whose is it? DNS, home record, lease: asked of a Resolver
//	foreign     another peer owns its subnet: its URLs leave in batches
//	nursery     nobody does: they wait until they are enough, or old enough, to
//	            claim the subnet (Malet 2009, 4.2: mu URLs per domain)
//
// Outbox and nursery are thus one table, and nothing moves when an owner
// changes. The package may import store and its siblings lease and wire.
//
// # What is safe
//
// A receiver that keeps replicas (Config.Safe) acknowledges only what is in the queue
// of a host in its frontier, and in the replicas: what it merely put aside, or what
// they lack, gets the verdict "later" and comes again. A host whose home is known to
// be elsewhere, or whose URLs would be passed on from here, gets "astray": the
// finder reads the home again; in the second case the receiver does, too.
//
// # Owners that do not answer
//
// There is one batch at a time to an owner, after growing waits. From the first
// failure on it is read anew who owns its subnets, one after another, over all
// such owners at the pace of Config.RefreshRate (doubt.go). URLs whose subnet has
// another owner go there; the others wait.
//
// # Bounds
//
// Beyond Config.MaxWaiting URLs the Forwarder is Crowded: all nurseries are claimed
// whatever their size, the oldest first, and the node fetches no pages until a tenth
// of the room is free again. Nothing is dropped for want of room.
//
// While the disk is full nothing is moved, claimed or sent, and batches of others are
// answered with "later"; every few seconds a small write finds out whether there is
// room again (full.go). Whose subnets are is read on meanwhile.
//
// # Fairness
//
// An owner gets one batch at a time, those that have waited longest first; a
// host gets an equal part of its owner's batch, as far as it has so many URLs.
// Look-ups, batches, batches to owners that failed, and claims have places of
// their own.
//
// # What is given up
//
// URLs of a host that does not exist (ErrGone), or whose name could not be
// looked up several times in a row (ErrUnresolved), while other names can be
// (Resolver.Alive). They are counted as failed. Everything else is tried again,
// with growing waits.
//
// Files: config.go; forwarder.go the public face and the loop, due.go what it begins, full.go a disk
// without room; book.go what is
// known of the hosts and what is due, entry.go one host and one lot of them,
// parcel.go what a batch takes, doubt.go owners that do not answer, timeline.go
// the order; resolve.go whose a host is; send.go batches to owners; receive.go batches from finders, gate.go
// how many at once; messages.go the frames.
package forward
