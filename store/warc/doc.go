// Package warc keeps what a peer fetched, byte for byte, in WARC 1.1 files
// (ISO 28500:2017) that other people's tools read, with a CDXJ index beside
// each. It imports nothing of peerd.
//
// Files:
//
//	archive.go   Options, Open, Append, Sync, Stats, Close
//	exchange.go  Exchange, Revisit, Location: what goes in, where it went
//	encode.go    an exchange as gzip members; runs in the caller's goroutine
//	writer.go    the one goroutine that owns the file being written
//	finish.go    checkpoints, rotation: index sorted, file renamed
//	repair.go    what a crash left is cut at the last whole record and finished
//	log.go       the index of a file that is being written
//	scan.go      reading records: foreign bytes, nothing is trusted
//	entry.go     a line of the index
//	sort.go      external merge sort of lines
//	surt.go      the key of a line
//	reader.go    Reader: Copy, Index, Records, ReadAt
//	disk_*.go    free space and the lock of the folder
//
// # On disk
//
//	peerd-20260102030405-00001.warc.gz        finished, never changes again
//	peerd-20260102030405-00001.cdxj           its index, sorted
//	peerd-20260102040405-00002.warc.gz.open   being written
//	peerd-20260102040405-00002.cdxj.open      its log: index lines as they come
//
// One gzip member is one record, so files may be concatenated and a record can
// be read alone. A file begins with one warcinfo record. An exchange is
// written by one write call: response (or revisit), request, metadata; the
// later two name the first in WARC-Concurrent-To, so a file that ends early
// never points at a record that is not there.
//
// # Durability
//
// A write that was interrupted is cut off at the next Open; a file left by
// another process is finished there, never continued. Append returns when the
// kernel has the bytes: a kill -9 loses nothing that was appended. What a
// crash of the machine may lose is what came after the last Sync. The log
// is never believed further than its last checkpoint, which is written when
// the WARC up to there is durable and carries a checksum of the log; the rest
// of the index is read from the WARC again.
package warc
