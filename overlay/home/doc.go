// Package home says which subnet a host name belongs to. A host with several
// addresses (a CDN, round robin) would otherwise have several owners, who would
// crawl it twice and at twice the polite pace. So the first peer that needs to
// know writes a signed Record under /peerd-home/<host> in the DHT, lets it
// settle and reads it back; conflicting records merge by a fixed order (Better)
// to the same one everywhere.
//
// What is decided is only which of the possible homes counts; that the subnet is
// really one of the host's is not checked here, for DNS answers differ by place.
// A host that is an IP literal needs no record. Records do not expire; they live
// as long as the DHT's replicas and the peers that use them keep them. As with
// leases this is no consensus: a better record may still turn up after a partition.
//
// # Moves
//
// A host whose addresses have left its home gets another one. Records have epochs:
//
//	settled (epoch 1) --> moved (2) --> moved (3) ...
//
// A move is signed by the owner of the home before; or, a rescue, by somebody else
// when that one's last lease has ended for Silence. It carries its proof, so that
// any replica can check it without a look at the network: the statement before it
// and a lease of the home before.
//
//	value = { statement n+1 | statement n | lease of the home at n }
//	statement = host, subnet, epoch, from, by, issued, digest of the proof; signed
//
// The statement before comes without its own proof, so a value does not grow. What
// the proof shows is the signer's own word, like a lease: peers that forge leases
// have to be kept out. Better is a total order, so merging is a join: the higher
// epoch; the owner's move before a rescue; then as at epoch 1.
//
// Who guesses where a host is may use what it remembers (Cached), for whoever
// gets the URLs corrects it. Who is about to crawl a host asks the DHT (Settle, Read):
// of the owners that a host had, at most one finds its subnet in the record.
//
// The package imports store, overlay/lease and overlay/lease/register, and libp2p's
// core for keys and envelopes. It opens no stream itself: the DHT is handed in as
// Values.
//
// Files:
//
//	record.go     Record, Better, and why a record is refused
//	seal.go       Seal, SealMove, Open: statements and their proofs
//	host.go       which texts are host names
//	validator.go  DHT key, record validator
//	registry.go   Registry: Settle, Learn, Cached, Sealed
//	move.go       Read, Value, Draft, Announce: moving a host
package home
