// Package estimate lets the owner of a subnet have a URL fetched by another peer, the
// estimator. The download time is a sample for the server's proxy coordinate (Malet
// 2009, 3.1.2). The package implements the protocol; package owner decides which peer is
// asked, and package crawl fetches.
//
// The estimator fetches only for the owner of the URL's subnet, which it verifies by the
// lease in the request. It reports all links of the page and routes none of them: the
// owner stores them in the transaction that completes the page. An owner that did not
// receive the report asks again and gets the same one. How much a peer may request is
// limited (allowance.go), and the Fetcher is as polite as for its own fetches.
//
// The owner enforces the server's politeness delay and must therefore know whether a
// request was sent. [ErrNotSent] guarantees that none was; after [ErrNoReply] one may
// have been.
//
// Callers provide a [Fetcher] and [Leases] and run Serve. All methods are safe for
// concurrent use. docs/protocol/estimate.md describes the messages. The package imports
// store, overlay/lease and overlay/wire.
package estimate
