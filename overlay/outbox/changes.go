package outbox

import (
	"net/netip"

	"peerd/internal/lru"
)

// maxChanges is the number of subnets of which the last change is remembered: far more than change
// while a host is looked up.
const maxChanges = 4096

// changes remembers which subnets have changed their owner, so that a lookup that began before
// cannot enter an old one. Its memory does not depend on the number of lookups.
type changes struct {
	last, forgotten uint64 // numbers of the last change, and of the last that is not in of
	of              *lru.Simple[netip.Prefix, uint64]
}

func newChanges() *changes {
	c := &changes{}
	c.of = lru.NewSimple(maxChanges, func(_ netip.Prefix, n uint64) {
		c.forgotten = max(c.forgotten, n)
	})
	return c
}

func (c *changes) add(p netip.Prefix) {
	c.last++
	c.of.Add(p, c.last)
}

// after reports whether p may have changed after the change with number n.
func (c *changes) after(p netip.Prefix, n uint64) bool {
	at, _ := c.of.Peek(p)
	return at > n || c.forgotten > n
}
