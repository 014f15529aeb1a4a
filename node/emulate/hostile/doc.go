// Package hostile is a web that is out to harm crawlers: traps without end,
// answers that are no HTTP, bodies that blow up, robots.txt in every odd form,
// links to addresses that nobody may dial. It is served over raw TCP, so that
// any byte can be sent, keeps a log of everything that was asked, and judges a
// crawler from that log alone.
//
// A Case is one way to be hostile: hosts, seeds, and the Bound that a good
// crawler keeps to. Each case has an address in a /24 of its own, so that many
// can be tried in one crawl. The addresses that a case tempts to dial are
// listened on too, where they are loopback, and must see no connection.
//
// It imports the standard library, codecs and character sets, and nothing of
// this module.
//
// Files:
//
//	web.go        Options, Serve, Web: sockets and URLs
//	names.go      what the DNS says of the hosts
//	conn.go       one connection: requests in, answers out
//	exchange.go   one request and the tools to answer it, well or badly
//	log.go        Hit, Conn, Lookup: what happened
//	case.go       Case, Bound, Cases
//	judge.go      Judge: the log against a Bound
//	portal.go     an index of all cases, the hosts file, the log and the verdicts
//	prose.go      pages with text that differs, or does not
//	redirects.go  redirects
//	traps.go      endless sites, and honest ones that look alike
//	heads.go      what can be wrong before the body
//	bodies.go     what can be wrong with the body
//	bombs.go      small bodies that grow when decoded
//	framing.go    lengths, chunks and connections that break
//	robots.go     robots.txt
//	throttle.go   429, 503 and Retry-After
//	text.go       character sets, base, names and paths that are not ASCII
//	addresses.go  private, loopback and other addresses not to be dialled
package hostile
