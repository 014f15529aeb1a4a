// Package fetch requests one URL from one address over HTTP and reports the outcome and how
// long each phase took.
//
// The package owns the connections to web servers and every limit on what a server may do:
// which addresses and ports are dialled, how long each phase may take, the minimum transfer
// rate, and the size of heads and bodies before and after decompression. It does not know about
// robots.txt, queues or the content of pages, follows no redirects and keeps no cookies. It
// imports store, crawl/deny, crawl/extract (for what is HTML) and internal.
//
// # Guarantees
//
// A request is written to the network at most once (see Fetcher.Do). A connection belongs to
// one (scheme, host, port, address) and carries one request at a time. Only addresses that the
// Guard allows are dialled. If the transfer or decoding of a body fails, none of it is returned.
// docs/protocol/fetch.md explains how, and why net/http's connection pool is not used.
//
// # Files
//
//	config.go                    Config, defaults and validation
//	fetcher.go                   Fetcher, Request, Result, Do
//	connect.go                   Connect: open a connection without a request; Rank, Answered
//	race.go, addrs.go            the first of several addresses that answers
//	guard.go, prefixes.go        which addresses and ports may be dialled
//	own.go                       the networks of this machine
//	transport.go                 requests of other protocols over HTTP
//	target.go                    store.URL to the request target, byte for byte
//	conn.go, pool.go             connections, in use and idle
//	stale_*.go                   detects idle connections that the server has closed
//	proxy.go                     dialling through an HTTP or SOCKS5 proxy
//	tlsinfo.go, tlserror.go      a TLS session, and why there is none
//	phases.go                    measures the phases of a request
//	rate.go                      the time for a head, and the minimum rates of a body
//	response.go                  status, header and first bytes to outcome
//	body.go, memory.go           reading bodies within limits, of one and of all together
//	coding.go                    content codings, also of stored bodies
//	partial.go                   continues a body that was cut
//	record.go                    heads as text for an archive; conditional requests
//	classify.go                  error to outcome
//	headers.go                   Retry-After and Keep-Alive
package fetch
