// Package hostile provides a web that attacks crawlers: endless traps, answers that are
// not HTTP, decompression bombs, robots.txt in every odd form, and links to addresses
// that must not be dialled. It is served over raw TCP, so that any byte can be sent. It
// logs all requests and judges a crawler by this log alone.
//
// A Case is one kind of attack, with hosts, seeds, and the Bound that a good crawler
// respects. Each case has an address in a /24 of its own, so that one crawl can include
// many. The package also listens on the forbidden loopback addresses of a case, which
// must receive no connection.
//
// It imports the standard library, codecs and character sets, and no other package of
// this module.
//
// Files:
//
//	web.go        Options, Serve, Web: sockets and URLs
//	names.go      DNS answers for the hosts
//	conn.go       one connection: requests and answers
//	exchange.go   one request and methods to answer it, correctly or not
//	log.go        Hit, Conn, Lookup: the log
//	case.go       Case, Bound, Cases
//	judge.go      Judge: checks the log against a Bound
//	portal.go     an index of all cases, the hosts file, the log and the results
//	prose.go      pages with different or equal text
//	redirects.go  redirects
//	traps.go      endless sites, and honest sites that resemble them
//	heads.go      faults before the body
//	bodies.go     faults of the body
//	bombs.go      small bodies that grow when decoded
//	framing.go    invalid lengths and chunks, broken connections
//	robots.go     robots.txt
//	throttle.go   429, 503 and Retry-After
//	text.go       character sets, base, names and paths that are not ASCII
//	addresses.go  private, loopback and other addresses that must not be dialled
package hostile
