// Package register holds what leases and homes have in common: one small signed
// record under one key of the DHT, written by whoever comes first, merged by the
// replicas to the same winner, and read back before anybody relies on it.
//
// It knows neither what a record says nor which of two is better. It imports
// libp2p's core and CBOR only.
//
// Files:
//
//	kind.go    Kind: CBOR body <-> signed envelope, with limits
//	values.go  Values (the DHT as seen from here), Get, Publish, Settle, Pause
package register
