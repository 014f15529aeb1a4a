package network

import (
	"context"
	"math/rand/v2"
)

// NameServers returns a Probe that has lookup look up a name that does not exist, so that the name
// servers must ask others, and that no cache contains. A cache cannot infer either that there is no
// such name below com: its zone uses NSEC3 with opt-out (RFC 8198, section 5.2).
func NameServers(lookup func(ctx context.Context, name string) Evidence) Probe {
	return func(ctx context.Context) Evidence { return lookup(ctx, unknownName()) }
}

// unknownName returns a name that is not registered. It has two labels, because many gateways
// do not forward queries for one.
func unknownName() string {
	name := make([]byte, 20)
	for i := range name {
		name[i] = byte('a' + rand.N(26))
	}
	return string(name) + ".com"
}
