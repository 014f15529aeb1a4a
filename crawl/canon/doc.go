// Package canon creates store.URL values: it defines when two texts name the same page. It
// imports store and a parser for the WHATWG URL Standard, and does no I/O. All functions are
// safe for concurrent use.
//
// The canonical form is the URL that a browser would request (WHATWG URL Standard: tabs and
// newlines removed, backslashes converted, dot segments removed, IDN converted to ASCII, IPv4 and
// IPv6 in shortest form, default port removed, non-ASCII characters as escapes of UTF-8). Where
// the standard allows several forms of one URL, one is chosen (RFC 3986, section 6.2.2):
//
//   - The scheme is http or https, there are no credentials, and the length is at most
//     MaxLength bytes.
//   - The fragment and an empty query are removed.
//   - One trailing dot of the host is removed, and the host is a possible name in the DNS.
//   - Escapes of unreserved characters are decoded, other escapes use upper-case hex digits, and
//     a "%" that begins no escape is written "%25".
//
// Anything that may name a different page is kept: letter case and double slashes of the path,
// the order of the query. A network can choose Rules that go further, for example by removing
// session IDs and tracking parameters.
//
// ParseWHATWG returns the form of the standard itself, for comparison with browsers.
//
// # Files
//
//	canon.go    Parse, Join and their errors
//	base.go     Base: what the references of a document are resolved against
//	host.go     which hosts are accepted; their registered domains
//	escape.go   the normal form of percent escapes
//	clean.go    the fast path for texts that are already canonical
//	whatwg.go   ParseWHATWG and Parts; the parser of the standard
//	rules.go    Rules: what a network chooses
//	session.go  names of parameters and files that Rules use
package canon
