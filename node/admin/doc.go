// Package admin is the door through which an operator looks into a running
// peer and talks to it: HTTP with JSON bodies on a loopback address, and the
// client for it. What the command line prints is exactly what goes over this
// wire: both ends use the types of this package.
//
// It declares the Node that it serves and may import the standard library and
// the atomic file writer; no other room.
//
// # Who may use it
//
// The server writes its address and a random token to a file that only the
// peer's user can read; every request carries the token. A request whose Host
// header is a name other than localhost is refused, so that no web page can
// reach the server through a name that it points there.
//
// Files:
//
//	types.go    the JSON bodies
//	filled.go   empty lists for nil ones
//	node.go     Node, what the server reads
//	routes.go   paths, one handler each
//	guard.go    token, Host header, body limit, panics
//	errors.go   the table from error to HTTP status, and back
//	server.go   Listen, Run
//	file.go     api.json
//	client.go   Client
package admin
