// Package ping decides whether a web site that runs no peer has said itself that its pages have
// changed. A ping is a message by the IndexNow protocol (https://www.indexnow.org/documentation):
// it names pages, and a key that is the text of a file of their site. Whoever can write that file
// speaks for the pages beside and below it.
//
// Anyone can send a ping to any peer, which passes each page on to the owner of its subnet as a
// [Notice], with the key. [Sites] holds what the owner knows: which keys it has found in the files
// that were named, and which notices wait until a file has been read. Of the sites named in forged
// pings it lets one file be read in a while, and none of their pages. The package sends no request
// itself; package crawl does. docs/protocol/ping.md describes the whole path.
//
// The package imports store and crawl/canon. Sites is safe for concurrent use.
//
// Files: notice.go a page with its key, as one URL; request.go the messages of IndexNow; sites.go
// what is known of the keys.
package ping
