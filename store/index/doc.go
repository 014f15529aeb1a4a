// Package index is a full-text index of pages: it finds the pages that contain words, and ranks
// them. It is stored with scorch, the index of bleve; the texts remain in the archive.
//
// Apply adds and removes pages together with the position in the archive up to which it is
// indexed, in one batch. A batch is on disk when Apply returns, and after a crash either all of
// it is stored or nothing. So whoever continues at Position misses no page, and a page that is
// added again replaces itself.
//
// A Reader is a consistent view. A search has two steps, so that several indexes rank as one:
// Count returns in how many pages each word of a query occurs, and Search ranks with the sums of
// all indexes. The score is BM25 over the text, the title and the headings (Robertson et al.,
// "Simple BM25 extension to multiple weighted fields", 2004). The lengths of fields are compared
// with constants and not with the mean of the index, so that the score of a page depends on
// nothing else in its index. Links of other hosts count as well; see links.go.
//
// Words are reduced to their stems in the languages of language.go; the language of a page is
// detected. Scripts without spaces between words are indexed as pairs of characters. Positions
// are not indexed: they would make the index five times as large. Phrases are looked up in the
// texts of the pages that contain all words.
//
// The methods of Index and of stemmer are safe for concurrent use, except that one goroutine
// calls Apply. A Reader is for one goroutine. docs/search.md describes the syntax of queries.
package index
