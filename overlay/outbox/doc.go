// Package outbox delivers URLs to the owners of their hosts.
//
// A URL of a host that this peer does not own is added to the store as pending, in the
// same transaction as the page that links to it. A [Forwarder] looks up the host's owner
// and sends it pending URLs in batches. URLs of unowned subnets wait in the unclaimed
// queue until there are enough of them, or they are old enough, to claim the subnet.
//
// Delivery is at least once. A pending URL is deleted only after the owner has
// acknowledged it or after it has entered a queue of this peer. The receiver stores and
// syncs URLs before it acknowledges them; if it has replicas, these have them too
// (Node.Safe). Receiving a batch twice changes nothing. URLs that cannot be delivered
// wait; only those of hosts with a name that does not resolve for long (names.go), or that
// must not be crawled, are given up and counted as failed.
//
// An owner gets one batch at a time, and every host of a batch an equal share. An owner
// that does not answer delays no other. The Forwarder keeps only counts in memory, and
// its lookups, batches and claims are limited in number. Above Config.MaxPending it is
// over its limit ([Forwarder.OverLimit]) and the crawler should pause. While the disk is
// full nothing is delivered, claimed or acknowledged.
//
// Callers report added URLs (PendingAdded), changed owners (ResolveAgain) and what others say of
// owners (Announced), provide a [Resolver] and a [Node], and run Run and Serve. All methods are
// safe for concurrent use.
//
// docs/protocol/outbox.md describes the states of a host and the protocol. The package
// imports store and overlay/wire.
//
// Files: forwarder.go the API and the main loop; due.go the tasks that are due; table.go
// hosts and their counts, with entry.go, changes.go, batch.go, refresh.go (owners that do
// not answer) and timeline.go; resolve.go owner lookups; names.go names that do not resolve;
// send.go, receive.go and messages.go the protocol; gate.go its concurrency limit;
// finders.go the senders of URLs; full.go a full disk; observe.go what a Sink is told of batches.
package outbox
