// Package sitemap reads documents in which sites list their pages: sitemaps and sitemap indexes
// (sitemaps.org, protocol 0.9), plain lists of URLs, RSS 0.9x, 1.0 and 2.0, Atom 0.3 and 1.0 (RFC
// 4287). It imports store, canon, charset tables and a gzip reader; it does no I/O, and its
// functions are safe for concurrent use.
//
// The kind of a document is determined from its content alone, because names, content types and
// extensions of sitemaps are often wrong. Gzip is recognized by its magic number, up to twice. The
// encoding is determined by the byte order mark, the XML declaration or the Content-Type, in this
// order, and is UTF-8 otherwise.
//
// Parsing is tolerant: bare ampersands, missing and foreign namespaces, unclosed entries and
// control characters are accepted. An element is used only at its place and with the prefix of
// its entry, or none, so that locations of images, videos and translations are not taken for
// pages. A document that is cut yields the entries before the cut, and is marked as truncated.
//
// The cost of a document is proportional to its length: entities are not expanded (encoding/xml
// knows only the five of XML), there are limits on nesting, tokens, texts, entries, URLs, the
// inflated size and the compression ratio, and the text is never held as a whole.
//
// # Files
//
//	sitemap.go  Parse, Doc, Entry, Options
//	inflate.go  decompression, and limits on bytes
//	text.go     decoding to UTF-8 that is valid in XML; lists of URLs
//	xml.go      the elements of a document
//	entry.go    from the texts of an entry to an Entry
//	date.go     W3C and RFC 822 dates
//	allowed.go  which pages a sitemap may list
package sitemap
