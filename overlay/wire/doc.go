// Package wire sends messages over streams: it defines frames, their encoding, and
// conversations with deadlines. It does not know any message. It guarantees that no
// message is accepted that is larger, deeper or slower than the reader allows.
//
// A frame is a length and a body:
//
//	+---------------------+----------------------------------+
//	| length, uvarint     | body, exactly length bytes, > 0  |
//	| (1 to 5 bytes)      | CBOR (RFC 8949), or a zstd frame |
//	|                     | (RFC 8878) of CBOR               |
//	+---------------------+----------------------------------+
//
// The protocol determines which of the two bodies is used; a frame does not say. The CBOR
// is deterministic (RFC 8949 section 4.2.1) and strict: no indefinite lengths, no tags,
// no repeated keys, bounded nesting and counts. Unknown map keys are skipped, so that
// later versions may add fields. Times are RFC 3339 text with nanoseconds.
//
// Memory: a message is decoded only if that takes not much more memory than it has bytes, and
// the bytes of all messages in use are counted for the process, for each peer and for each
// network of addresses (LimitMemory), with what a receiver makes of them (Conn.Use). A stream
// takes a place only when its first message has come, and a peer that has not introduced itself
// (Meet) sends small messages only.
// docs/protocol/overlay.md lists all limits.
//
// Package wire imports libp2p's interfaces, overlay/prefix and no other package of this module.
package wire
