// Package extract finds the links of HTML pages and of their HTTP headers,
// and reads what a page says about itself: title, base, canonical URL, what it
// asks of crawlers, its text. It imports store, canon and the HTML tokenizer
// and parser of golang.org/x/net; it does no I/O, and its functions are safe
// for concurrent use.
//
// What a page links to is defined by the tree that browsers build with
// scripting off. Building it costs more than all else, so pages are read token
// by token (scan.go), with the rules of tree construction that change which
// start tags are elements and what is raw text: noscript is none, a form in a
// form is ignored, SVG and MathML have CDATA and no raw text. Where more is
// needed the scanner gives up and the tree is built (tree.go): framesets, HTML
// inside SVG or MathML and tags that end them, col in templates, forms with
// templates, a second base, title or canonical link behind a table. The
// outcomes differ in two ways only: elements that the tree has several times,
// because it opens them again, are links once; and what stands between the
// rows of a table stays in its place. Style attributes count even on tags that
// tree construction ignores.
//
// Tree construction can take time and memory far beyond the size of a page:
// html.Parse opens hundreds of formatting elements again at each block, and
// compares the attributes of all html tags with each other. Pages that could
// do that, are above 1 MB, or are nested deeper than the parser takes, are
// read by tokens to the end: in those that would need a tree, links may then
// be more or fewer than in a browser.
//
// application/xhtml+xml is read by the HTML tokenizer too, without a tree;
// "/>" ends every element there, and CDATA is text.
//
// The contents of template and noscript count. Which elements and attributes
// are followed is in Kinds; a link element is not if its rel names what is no
// page (rel.go).
//
// Text is decoded before links are resolved: by byte order mark, Content-Type,
// <meta>, or guessing. Queries are always escaped as UTF-8, where browsers
// would use the page's own encoding: which page a URL names must not depend on
// the encoding of the page that it was found on.
//
// Files:
//
//	extract.go   HTML, Page, Options, Document, Link
//	elements.go  elements and attributes that matter
//	collect.go   what each element contributes
//	scan.go      the page token by token
//	foreign.go   SVG and MathML in scan.go
//	tree.go      the page as a tree, and which pages may become one
//	headers.go   Link, Refresh
//	robots.go    X-Robots-Tag and meta robots
//	refresh.go   the URL of a refresh
//	srcset.go    the URLs of a srcset
//	css.go       the URLs of CSS
//	rel.go       link relations
//	visible.go   text
//	charset.go   from bytes to UTF-8
package extract
