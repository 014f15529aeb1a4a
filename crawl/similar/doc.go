// Package similar finds pages that say the same: exact copies, near-copies,
// "not found" pages that answer 200, and hosts that mirror each other. It
// imports store, and does no I/O; no goroutine, no clock. The same pages in
// the same order give the same answers everywhere.
//
// Exact copies have equal Digests. Near-copies have Prints that differ in few
// bits: a Print is the simhash (Charikar 2002) of a page's sequences of words,
// compared as Manku, Jain and Das Sarma did ("Detecting Near-Duplicates for Web
// Crawling", 2007): 64 bits, at most 3 of them different. An Index finds these
// in four tables, each keyed by another 16 of the 64 bits: of four blocks, three
// differing bits leave one alone.
//
// Everything here is what one owner knows of one host, bounded, and marshals
// for its disk; only a Mirror is about two.
//
// Files:
//
//	digest.go       Digest of a body
//	fingerprint.go  Print: Fingerprint, Distance
//	words.go        the words of a page, markup left out
//	index.go        Index: near-copies of a Print
//	clusters.go     Clusters: how many pages share a digest
//	notfound.go     SoftNotFound, its signals, ProbeURL
//	phrases.go      how pages say "not found"
//	mirror.go       Mirror: two hosts with the same pages
package similar
