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
// as long as the DHT's replicas and the peers that use them keep them, and travel
// with batches and handovers (Sealed, Learn). As with leases this is no
// consensus: a better record may still turn up after a partition.
//
// The package imports store and overlay/lease/register, and libp2p's core for
// keys and envelopes. It opens no stream itself: the DHT is handed in as Values.
//
// Files:
//
//	record.go     Record, Better, Seal, Open, and why a record is refused
//	host.go       which texts are host names
//	validator.go  DHT key, record validator
//	registry.go   Registry: Settle, Learn, Cached, Sealed
package home
