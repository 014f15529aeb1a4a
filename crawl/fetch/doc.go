// Package fetch gets one URL from one address over HTTP, and tells how it
// ended and where the time went.
//
// It owns the connections to web servers and every limit on what a server may
// do to us: which addresses are dialled at all, how long each phase takes, how
// slow a body may be, how big it and a head, how far it may blow up when it is
// decompressed. It imports store for the nouns, and nothing else of this
// module. It knows nothing of robots.txt, of queues, or of what is in a page,
// follows no redirect and keeps no cookie.
//
// Files:
//
//	config.go       Config, its defaults and its faults
//	fetcher.go      Fetcher, Request, Result; Do in its four steps
//	connect.go      Connect: a connection without a request
//	guard.go        Guard: which addresses may be dialled
//	ports.go        ports that no HTTP is spoken to
//	special.go      the special-purpose address ranges behind it
//	target.go       store.URL → what net/http sends, byte for byte
//	conn.go         one connection: dialled, guarded, used by one Do at a time
//	proxy.go        dialling by way of an HTTP or SOCKS5 proxy
//	session.go      what a TLS session was
//	pool.go         idle connections by scheme, host, port and address
//	stale_linux.go  has the server closed this idle connection already?
//	phases.go       the stop-watch behind store.Timing
//	answer.go       status and header → outcome, and whether the body is taken
//	body.go         the body: size, memory, what to do with one that is not taken
//	coding.go       content codings: gzip, deflate, br, zstd, and their ratio
//	pace.go         the least rate at which a body must come
//	record.go       heads as text for an archive; conditional requests
//	classify.go     error → outcome
//	hints.go        Retry-After and Keep-Alive
//
// # Connections
//
// A connection belongs to (scheme, host, port, address). net/http's own pool
// cannot have the address in its key unless there is a Transport per address,
// or the URL's host is replaced by the address; the first costs a Transport
// for each server on the web, the second breaks SNI, certificate checks and
// :authority. Therefore the pool is ours, over http.Transport.NewClientConn,
// which makes one HTTP/1.1 or HTTP/2 connection and leaves the rest to the
// caller. A connection carries one request at a time, HTTP/2 too: there is
// never more than one request in flight per host anyway.
//
// # Bodies
//
// Of a 2xx the body is read to its end or Config.MaxBody, whichever is met
// first, counted on the wire and after each coding. At most two codings are
// undone; the list of outcomes in store tells what becomes of broken ones. Two
// things that servers do and browsers forgive are forgiven here, too: bare
// deflate under the name of deflate, and anything at all after the end of gzip
// and zlib data. Nothing of a body is kept whose transfer or coding broke.
// A body needs memory for itself (twice with Request.Keep and a coding) and for
// the windows of its decoders: 32 KiB for gzip and deflate, at most 8 MiB for
// zstd and 16 MiB for brotli. Decoders are kept for the next body.
//
// The memory of a body is the caller's. Who is done with it may give it back
// with Result.Release; then the next body needs no new one.
//
// # Proxies
//
// A proxy only sees addresses: the target is resolved on this side, asked of
// the guard, and the proxy is told the number. Names in TLS and the Host field
// stay. What the guard cannot do is look at the far end of the connection.
//
// # Sent at most once
//
// A Do never puts its request on the wire twice. net/http's Transport would: a
// request that dies on a reused connection before the first byte of an answer
// is sent again, though the server may have read and logged it. A ClientConn
// does not, and Do sends again only when nothing of the request has left.
//
// What that retry is for, a server that closed the connection while it was
// idle, is handled before sending instead: an idle connection is dropped at
// Config.IdleTimeout or a second before the time that the server announced
// (Keep-Alive: timeout=N), and asked for a pending FIN or RST just before use.
// What remains is a close that crosses the request on the wire. That is
// OutcomeReset with Timing.Reused set; as with any reset nobody can tell
// whether the server saw the request, and the crawler decides, at its own
// pace, whether to ask again.
package fetch
