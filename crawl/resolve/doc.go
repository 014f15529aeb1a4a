// Package resolve turns host names into addresses, for a crawler that asks for
// the same few hosts thousands of times.
//
// It owns a bounded cache with one lookup at a time per name, remembers
// failures too, and holds the operator's overrides. It imports no other room;
// whether an address may be dialled is not its business but fetch.Guard's.
//
// Files:
//
//	config.go   Config, its defaults and its faults
//	cache.go    Cache: overrides, literals, fresh answers, the rest is looked up
//	flight.go   one lookup shared by everybody who waits for it
//	lookup.go   the lookup itself, and which failures are final
//
// # Lifetimes
//
// The system's resolver does not tell the TTL of a record, so answers live for
// one configured time. That is longer than many records ask for, on purpose:
// the address decides who owns a host, and a host that changes hands with
// every round of a load balancer would be nobody's.
package resolve
