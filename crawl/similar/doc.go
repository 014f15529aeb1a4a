// Package similar finds pages with the same content: exact copies and near-copies. It imports
// store, performs no I/O, reads no clock and starts no goroutine. The same pages in the same
// order give the same answers everywhere.
//
// Exact copies have equal Digests. Near-copies have Simhashes that differ in few bits. The
// Simhash (Charikar 2002) of a page is computed from its word sequences and compared as in
// Manku, Jain and Das Sarma, "Detecting Near-Duplicates for Web Crawling", 2007: at most 3
// of 64 bits differ. Package trap compares pages by it.
//
// Files:
//
//	digest.go       Digest of a body
//	fingerprint.go  Simhash: Fingerprint, Distance
//	short.go        TextHash: also for short texts; Gist: without numbers
//	words.go        the words of a text
//	clusters.go     Clusters: how many pages share a digest
package similar
