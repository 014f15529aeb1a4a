// Package search connects the index of a peer with its archive: it reads the pages that are
// archived into the index, and the texts of pages that were found from the archive.
//
// The archive is the only source. An Indexer follows it from the position that the index has
// stored, so nothing that was archived is missed, also after a crash or while the index was
// off. A page replaces an earlier version of itself, and is removed when its URL answers with
// 404 or 410, redirects for good, or asks not to be indexed.
package search
