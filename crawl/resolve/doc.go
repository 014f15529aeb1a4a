// Package resolve turns host names into addresses, for a crawler that needs the addresses of
// the same few hosts thousands of times.
//
// A [Cache] has at most one lookup at a time per name. It also caches failures, and applies the
// operator's overrides. A [Client] is a stub resolver over UDP, TCP, TLS or HTTPS; its queries are
// limited per name server and per registered domain. Of this
// module it imports only packages of internal. Whether an address may be dialled is decided by
// fetch.Guard.
//
// # Lifetimes
//
// Addresses are used for their TTL, within a minute and a day: the address decides which peer
// owns a host, and a load balancer with a TTL of seconds would change it with every answer. "No
// such host" is cached as RFC 2308 says, at most for Config.NegativeTTL. If a lookup fails,
// addresses that have expired remain in use for some time (RFC 8767).
//
// # Names
//
// The hosts file has precedence. Search domains apply only to names with a single label, after the
// name itself: a link to http://www.example/ must not cause a query for www.example.corp.example.
// nsswitch.conf and the options of resolv.conf are ignored; DNSSEC is not verified.
//
// # Files
//
//	config.go     Config, defaults and validation
//	cache.go      Cache: overrides, literals, cached answers, lookups
//	call.go       a lookup shared by all callers that wait for it
//	lookup.go     Lookup
//	client.go     Client: both families of addresses, one server after another
//	message.go    queries and the meaning of responses
//	upstream.go   one name server; transport.go: UDP, TCP, TLS and HTTPS
//	limits.go     limits of queries
//	server.go     the syntax of name servers
//	files.go      hosts and resolv.conf
//	errors.go     Error and its reasons
package resolve
