// Package lease says who owns a subnet. Ownership is a Lease: a small record,
// signed by the owner, under /peerd-lease/<prefix> in the DHT. Conflicting leases
// merge by a total order (Better) to the same winner everywhere, whatever the
// order of arrival.
//
//	epoch 1      a claim of a subnet that nobody owned
//	epoch n+1    a transfer: the lease carries the Grant that the owner of epoch n signed
//
// # What holds, and what does not
//
// A claim is written, left to settle, and read back before its maker may fetch
// anything. Still this is no consensus: for a moment, or in a partition, two
// peers may each believe to be the owner. So the epoch travels with all work as a
// fencing token, and whoever meets a better lease stops at once.
//
// In this version an owner keeps its subnet until it hands it over; there is no
// takeover. A lease that has expired (its owner is late, or dead) therefore still
// names the owner, and is still valid in the DHT, for Grace after its end, so
// that a lower epoch cannot creep back meanwhile. Lookup returns such leases;
// Lease.Expired tells. After Grace the subnet is free, and a claim starts
// again at epoch 1.
//
// A Grant proves that From wanted the transfer, not that From was the owner: the
// chain of earlier leases is not kept. Rivals of one epoch are ordered by a hash
// over the owner's name: being early or setting one's clock does not help, but
// making many names does. So a peer that lies can take a subnet; what it cannot
// do is to make others disagree about who has it.
//
// The package imports coords, store and its own register; libp2p's core for keys
// and envelopes. It opens no stream itself: the DHT is handed in as Values.
//
// Files:
//
//	lease.go      Lease, Grant, the times, Better
//	check.go      what makes a record acceptable, one sentinel for each reason
//	seal.go       the signed form
//	validator.go  DHT key, record validator
//	registry.go   Registry: Lookup, Learn, Cached, Forget
//	claim.go      Registry: Claim, Adopt, Renew
//	register/     envelopes and settling, shared with package home
package lease
