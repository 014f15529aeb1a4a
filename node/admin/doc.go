// Package admin is the API through which an operator inspects and controls a running peer:
// HTTP with JSON bodies on a loopback address, and the client for it. Both ends use the types
// of this package, and the command line prints exactly these with --json.
//
// The package declares the interface Node of the peer that it serves. Of this
// module it imports only node/httpserver and what is internal.
//
// # Access
//
// The server writes its address and a random token to a file that only the user of the peer can
// read, and every request carries the token. A second token, in a file of its own, permits only to
// read: it is for monitoring. A browser gets a session, which permits the same, for a code that can
// be used once. The server refuses requests with the name of a foreign host, so that no web page
// can reach it through a name that it directs there, and requests of pages of other origins.
//
// # Lists
//
// Lists take the parameters limit, offset, q and sort; the header Total-Count has the number of
// rows.
// openapi.json describes all routes. It is generated from the table in routes.go and the types.
//
// Files:
//
//	types.go, types_view.go, search.go, trace.go   the JSON bodies
//	normalize.go  empty lists for nil ones
//	node.go       Node, the peer behind the server
//	routes.go     the tables of routes, one handler each
//	list.go       the part of a list that a request asks for
//	stream.go     events as they happen
//	session.go    login codes and sessions of browsers
//	access.go     who may use which route
//	guard.go      tokens, Host and Origin headers, size of the body, panics
//	errors.go     the table from error to HTTP status, and back
//	requests.go   requests that are answered, and their end
//	server.go     Listen, Run, Drain
//	file.go       api.json and read.token
//	client.go     Client
package admin
