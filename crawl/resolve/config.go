package resolve

import (
	"net/netip"
	"strings"
	"time"

	"peerd/internal/faults"
)

const (
	defaultTTL         = time.Hour                   // lifetime of addresses without a TTL
	minTTL, maxTTL     = time.Minute, 24 * time.Hour // bounds of the TTL of addresses
	defaultNegativeTTL = 10 * time.Minute
	failureTTL         = 5 * time.Second // lifetime of a temporary failure
	// maxStale is how long after their lifetime addresses are used if lookups fail.
	maxStale   = 24 * time.Hour
	maxEntries = 10_000 // maximum number of cached names
)

// maxAddrs is the maximum number of addresses kept of one answer.
const maxAddrs = 16

// Config configures a Cache. Zero fields mean the default.
type Config struct {
	// Overrides are the addresses of hosts that are never looked up. Names are compared in
	// lower case and without a trailing dot.
	Overrides map[string][]netip.Addr
	// Lookup looks up a host. Nil means that of a Client with the name servers of the system.
	Lookup Lookup

	NegativeTTL time.Duration // maximum lifetime of "no such host"; default 10 min
}

// Validate returns all errors in c, joined.
func (c Config) Validate() error {
	f := faults.Of("resolve")
	f.If(c.NegativeTTL < 0, "NegativeTTL is negative: %v", c.NegativeTTL)
	for host, addrs := range c.Overrides {
		f.If(normalHost(host) == "", "override of %q names no host", host)
		f.If(len(normalAddrs(addrs)) == 0, "override of %q has no usable address", host)
	}
	return f.Err()
}

// withDefaults returns c with defaults in place of zero and negative values.
func (c Config) withDefaults() Config {
	if c.NegativeTTL <= 0 {
		c.NegativeTTL = defaultNegativeTTL
	}
	if c.Lookup == nil {
		c.Lookup = NewClient(ClientConfig{}).Lookup
	}
	return c
}

// normalHost returns the form of a name that is used for comparison.
func normalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
