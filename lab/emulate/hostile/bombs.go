package hostile

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"sync"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
)

// Bombs consist of chunks of 4 MiB of zeros: a thousand times what is on the wire when decoded
// with gzip, and more with the others.
const bombChunk = 4 << 20

// bombWire is the size on the wire. A client that reads one of two bombs exceeds their bound.
var bombWire = int(2*kept + kept/2)

func bombCases() []Case {
	small := func(name, about string, b Bound, bad func(*exchange)) Case {
		b.Sent = 2 * kept // of two bombs, less than both
		return heads(name, about, b, bad)
	}
	return []Case{
		small("bomb-gzip", "gigabytes of zeros as gzip", Bound{}, func(x *exchange) {
			x.gzipBomb(bombWire / len(deflated()))
		}),
		small("bomb-brotli", "terabytes of zeros as brotli", Bound{}, func(x *exchange) {
			x.brotliBomb(bombWire / len(brotlied()[1]))
		}),
		small("bomb-zstd", "terabytes of zeros as zstd", Bound{}, func(x *exchange) {
			x.zstdBomb(bombWire / len(zstdChunk))
		}),
		small("bomb-nested", "gzip in gzip in gzip, declared so", Bound{}, func(x *exchange) {
			x.answer(200, htmlType+"Content-Encoding: "+strings.Repeat("gzip, ", 2)+"gzip\r\n",
				nested(3))
		}),
		small("coding-lies", "a Content-Encoding that is not what the body is", Bound{},
			func(x *exchange) {
				text := map[string]string{"/bad/1": "<p>plain text",
					"/bad/2": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}[x.path]
				x.answer(200, htmlType+"Content-Encoding: gzip\r\n", text)
			}),
		small("coding-unknown", "an unknown Content-Encoding, and fifty at once", Bound{},
			func(x *exchange) {
				coding := map[string]string{"/bad/1": "rot13",
					"/bad/2": strings.Repeat("gzip, ", 49) + "gzip"}[x.path]
				x.answer(200, htmlType+"Content-Encoding: "+coding+"\r\n", "<a href=/poison>x</a>")
			}),
	}
}

// deflated returns a chunk as complete DEFLATE blocks, which can be repeated.
var deflated = sync.OnceValue(func() string {
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		panic(err) // only for a level that does not exist
	}
	_, _ = w.Write(make([]byte, bombChunk))
	_ = w.Flush() // to a buffer: neither fails
	return b.String()
})

// chunkSum returns the effect of a chunk on each bit of a CRC, which is linear apart from
// the inversions at both ends.
var chunkSum = sync.OnceValue(func() (m [32]uint32) {
	zeros := make([]byte, bombChunk)
	for i := range m {
		m[i] = ^crc32.Update(^(uint32(1) << i), crc32.IEEETable, zeros)
	}
	return m
})

// addChunk returns the CRC of a text after appending a chunk.
func addChunk(sum uint32) uint32 {
	var s uint32
	for i, m := range chunkSum() {
		s ^= m & -(^sum >> i & 1)
	}
	return ^s
}

// gzipBomb sends n chunks in one gzip member (RFC 1952).
func (x *exchange) gzipBomb(n int) {
	if !x.begin("Content-Encoding: gzip\r\n") ||
		!x.raw("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff") {
		return
	}
	var sum uint32
	for range n {
		sum = addChunk(sum)
	}
	if !x.repeat(deflated(), n) {
		return
	}
	tail := []byte{1, 0, 0, 0xff, 0xff} // an empty stored block, the last
	tail = binary.LittleEndian.AppendUint32(tail, sum)
	tail = binary.LittleEndian.AppendUint32(tail, uint32(uint64(n)*bombChunk))
	x.raw(string(tail))
}

// brotlied returns the first chunk of a brotli stream, one that can be repeated after it,
// and the end.
var brotlied = sync.OnceValue(func() [3]string {
	var b bytes.Buffer
	var parts [3]string
	w := brotli.NewWriterLevel(&b, 5)
	for i := range 2 {
		_, _ = w.Write(make([]byte, bombChunk))
		_ = w.Flush() // to a buffer: neither fails
		parts[i] = b.String()
		b.Reset()
	}
	_ = w.Close()
	parts[2] = b.String()
	return parts
})

func (x *exchange) brotliBomb(n int) {
	parts := brotlied()
	if !x.begin("Content-Encoding: br\r\n") || !x.raw(parts[0]) {
		return
	}
	if x.repeat(parts[1], n-1) {
		x.raw(parts[2])
	}
}

// zstdBlock is the size of the blocks of zstdChunk.
const zstdBlock = 128 << 10

// zstdChunk is a chunk as RLE blocks (RFC 8878, section 3.1.1.2): four bytes
// for each 128 KiB.
var zstdChunk = func() string {
	const rle = uint32(zstdBlock<<3 | 1<<1)
	return strings.Repeat(string([]byte{byte(rle & 0xff), byte(rle >> 8 & 0xff), byte(rle >> 16),
		0}), bombChunk/zstdBlock)
}()

// zstdBomb sends n chunks as one zstd frame.
func (x *exchange) zstdBomb(n int) {
	// no size, no checksum, window 8 MiB
	if !x.begin("Content-Encoding: zstd\r\n") || !x.raw("\x28\xb5\x2f\xfd\x00\x68") {
		return
	}
	if x.repeat(zstdChunk, n) {
		x.raw("\x01\x00\x00") // an empty raw block, the last
	}
}

// nested returns a page that is compressed n times.
func nested(n int) string {
	text := strings.Repeat("<a href=/poison>x</a>", 1000)
	for range n {
		text = gzipped(text)
	}
	return text
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close() // to a buffer: neither fails
	return b.String()
}
