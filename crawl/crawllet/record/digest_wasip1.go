package record

import (
	"fmt"
	"unsafe"
)

// blake2b256 is a function of the host of a crawllet: in WebAssembly, which has no vectors in Go,
// the digest takes ten times as long.
//
//go:wasmimport peerd_crawllet_1 blake2b_256
//go:noescape
func blake2b256(data unsafe.Pointer, size uint32, sum unsafe.Pointer) uint32

// Digest returns the digest of a page in summaries: BLAKE2b with 256 bits (RFC 7693). It panics if
// body is longer than MaxBody.
func Digest(body []byte) []byte {
	sum := make([]byte, 32)
	errno := blake2b256(unsafe.Pointer(unsafe.SliceData(body)), uint32(len(body)),
		unsafe.Pointer(unsafe.SliceData(sum)))
	if errno != 0 {
		panic(fmt.Sprintf("crawllet: digest of %d bytes: error %d", len(body), errno))
	}
	return sum
}
