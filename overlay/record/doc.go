// Package record keeps small signed records in the DHT: one under each key, written by the
// first peer that needs it, and merged everywhere to the same one by a total order. Leases
// and home records are two instances.
//
// A [Type] says what is particular to a kind of record: its keys, how it is checked, and
// which of two is better. A [Register] is one peer's view of the records of a Type: it
// remembers the best record seen of each key in bounded memory, asks the DHT for the rest,
// and writes. A record that may have a rival is written with Settle, which waits and reads
// back; of several writers with delays well below the wait exactly one is told that its
// record stands. This is not consensus: in a partition each side has a winner. [Rereads]
// tells when to read a record again to find out about rivals.
//
// A [Form] seals and opens records: a CBOR body in a signed envelope, with limits. A [Gate]
// bounds the writers that read and write at the same time.
//
// A Register is safe for concurrent use and opens no streams: the DHT is passed in as
// [Values]. The package imports libp2p's core, CBOR and a cache.
package record
