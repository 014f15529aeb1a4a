// Package replay shows archived pages over HTTP: to browsers as they were, to other programs by
// Memento (RFC 7089) and the CDX server API that pywb and the Wayback Machine have.
//
// Archived pages come from strangers. A page is served with a Content-Security-Policy that puts it
// in a sandbox without scripts, forms and an origin of its own, and that permits requests to the
// replay only. Besides, links are rewritten so that they lead to archived pages, and scripts are
// left out. The policy protects; rewriting only makes pages work. The listener is not that of the
// dashboard, so that even a page that broke out of the sandbox has another origin.
//
// The archive is only read. Each request reads a limited number of index lines and one capture.
// One page at a time is rewritten in memory; other bodies are sent while they are read.
package replay
