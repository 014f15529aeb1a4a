// Package wire is how peers talk over a stream: frames, their encoding, and
// conversations of frames with deadlines.
//
// It knows no message. The messages of a protocol are declared by the package
// that speaks it; wire only makes sure that nothing is taken from a peer that
// is larger, deeper or slower than the reader allowed.
//
// A frame is a length and a body:
//
//	+---------------------+----------------------------------+
//	| length, uvarint     | body, exactly length bytes       |
//	| (1 to 5 bytes)      | CBOR (RFC 8949), or a zstd frame |
//	|                     | (RFC 8878) of CBOR               |
//	+---------------------+----------------------------------+
//
// Which of the two bodies a protocol uses is fixed by the protocol; a frame
// does not say. The CBOR is deterministic (RFC 8949 section 4.2.1) and strict:
// no indefinite lengths, no tags, no repeated keys, bounded nesting and counts.
// Unknown map keys are skipped, so that a later version may add fields.
// Times are RFC 3339 text with nanoseconds.
//
// Files:
//
//	codec.go  Marshal, Unmarshal: the one CBOR dialect of this project
//	frame.go  WriteMsg, ReadMsg: one frame
//	zframe.go WriteMsgZ, ReadMsgZ: one compressed frame
//	conn.go   Conn: a stream on which each frame has a deadline; Dial
//	serve.go  Server: answers a protocol on a host, bounded, stoppable
//	limiter.go Limiter: how often each peer may ask for something
//
// It imports libp2p's interfaces and no other package of this module.
package wire
