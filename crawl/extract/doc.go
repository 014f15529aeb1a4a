// Package extract finds the links of HTML pages, and what a page says about
// following them. It imports store, canon and the HTML parser of
// golang.org/x/net; it does no I/O, and its functions are safe for concurrent
// use.
//
// Pages are parsed into a tree as browsers do with scripting off, because a
// tokenizer alone finds other links: whether <a> is a link depends on the
// tables, selects, framesets, raw text and foreign content around it. Only
// pages nested deeper than the parser takes are read token by token.
//
// Followed are a, area and link with href, iframe and frame with src, and meta
// refresh; a link not if its rel names what is no page (rel.go). The contents
// of <template> and <noscript> count.
//
// Text is decoded before links are resolved: by byte order mark, Content-Type,
// <meta>, or guessing. Queries are always escaped as UTF-8, where browsers
// would use the page's own encoding: which page a URL names must not depend on
// the encoding of the page that it was found on.
//
// Files:
//
//	extract.go   HTML, Document, Link
//	collect.go   what each element contributes
//	refresh.go   the URL of a meta refresh
//	rel.go       link relations
//	charset.go   from bytes to UTF-8
package extract
