// Package extract finds the links of HTML pages and of their HTTP headers, and reads what a
// page states about itself: title, base, canonical URL, directives for crawlers, text. It does
// no I/O, and its functions are safe for concurrent use. It imports store, canon, and the HTML
// tokenizer of golang.org/x/net.
//
// The links of a page are those of the tree that a browser builds with scripting disabled.
// Building it is expensive, so a page is read token by token. docs/protocol/extract.md
// describes the differences that remain.
//
// The contents of template and noscript elements are included. Kinds selects the elements and
// attributes that are followed; a link element is skipped if its rel names something other
// than a page.
//
// Text is decoded before links are resolved. The encoding is determined from the byte order
// mark, the Content-Type, a <meta> element or the bytes themselves, in this order. As in
// browsers, the queries of links are escaped in the encoding of the page, and paths as UTF-8.
//
// # Files
//
//	extract.go   Page, Options, Document, Link
//	elements.go  elements and attributes of interest
//	collect.go   what each element contributes
//	scan.go      reads a page token by token
//	plain.go     reads most tags without the tokenizer
//	headers.go   Link and Refresh
//	robots.go    X-Robots-Tag and meta robots
//	refresh.go   the URL of a refresh
//	srcset.go    the URLs of a srcset attribute
//	css.go       the URLs in CSS
//	rel.go       link relations
//	text.go      visible text
//	charset.go   decoding to UTF-8
//	query.go     queries in the encoding of the page
package extract
