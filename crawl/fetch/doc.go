// Package fetch gets one URL from one address over HTTP, and tells how it
// ended and where the time went.
//
// It owns the connections to web servers and every limit on what a server may
// do to us: which addresses are dialled at all, how long each phase takes, how
// big a head and a body may be, how far gzip may blow up. It imports store for
// the nouns, and nothing else of this module. It knows nothing of robots.txt,
// of queues, or of what is in a page, follows no redirect, keeps no cookie and
// uses no proxy.
//
// Files:
//
//	config.go       Config, its defaults and its faults
//	fetcher.go      Fetcher, Request, Result; Do in its four steps
//	guard.go        Guard: which addresses may be dialled
//	special.go      the special-purpose address ranges behind it
//	target.go       store.URL → what net/http sends, byte for byte
//	conn.go         one connection: dialled, guarded, used by one Do at a time
//	pool.go         idle connections by scheme, host, port and address
//	stale_linux.go  has the server closed this idle connection already?
//	phases.go       the stop-watch behind store.Timing
//	answer.go       status and header → outcome, and whether the body is taken
//	body.go         the body: size, gzip, what to do with one that is not taken
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
