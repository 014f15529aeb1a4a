// Package canon makes store.URL values: it owns the one rule for when two
// texts name the same page. It imports store and a parser for the WHATWG URL
// Standard, and does no I/O. All functions are safe for concurrent use.
//
// The form is what a browser would request (WHATWG URL Standard: tabs and
// newlines dropped, backslashes turned, dot segments removed, IDN to ASCII,
// IPv4 and IPv6 in shortest form, default port dropped, non-ASCII as UTF-8
// escapes), made unique where the standard leaves a choice (RFC 3986, section
// 6.2.2):
//
//   - only http and https, without credentials, at most MaxLength bytes;
//   - the fragment and an empty query ("?" alone) are dropped;
//   - one trailing dot of the host is dropped, and the host is one that the
//     DNS can hold;
//   - escapes of unreserved characters are decoded, other escapes have
//     upper-case hex, and a "%" that begins no escape is written "%25".
//
// Whatever could be another page stays: letter case and double slashes of the
// path, the order of the query. Rules go further where a network asks for it:
// without session ids, tracking parameters and the like.
//
// Raw is the form of the standard itself, to compare with browsers.
//
// Files:
//
//	canon.go   Parse, Join and their errors
//	base.go    Base: what references of one document resolve against
//	host.go    which hosts are taken
//	escape.go  the normal form of percent escapes
//	clean.go   the fast path: texts that are canonical already
//	raw.go     Raw, Parts; the standard's parser
//	rules.go   Rules: what a network chooses
//	session.go names of parameters and files that Rules know
package canon
