// Package sitemap reads what sites say of their pages: sitemaps and sitemap
// indexes (sitemaps.org, protocol 0.9), plain lists of URLs, RSS 0.9x, 1.0 and
// 2.0, Atom 0.3 and 1.0 (RFC 4287). It imports store, canon, charset tables and
// a gzip reader; it does no I/O, and its functions are safe for concurrent use.
//
// What a document is follows from its content alone: names, content types and
// extensions of sitemaps are wrong too often. Gzip is known by its magic
// number, twice over if need be; the encoding by byte order mark, XML
// declaration, Content-Type, and then it is UTF-8.
//
// Reading is tolerant: bare ampersands, missing and foreign namespaces,
// unclosed entries, control characters. An element counts by its place and only
// in the namespace of its entry, so that locations of images, videos and
// translations are not pages. A document that breaks off gives what came
// before, and says so.
//
// Nothing in a document costs more than its length: entities are not expanded
// (encoding/xml knows none but the five of XML), nesting, tokens, texts,
// entries, the inflated size and the ratio of compression are bounded, and the
// text is never held as a whole.
//
// Files:
//
//	sitemap.go  Parse, Doc, Entry, Options
//	read.go     inflating, and the bounds on bytes
//	text.go     from bytes to UTF-8 that XML allows; lists of URLs
//	xml.go      the walk over the elements
//	entry.go    from the texts of an entry to an Entry
//	date.go     W3C and RFC 822 dates
//	allowed.go  which pages a sitemap may speak for
package sitemap
