package resolve

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The defaults of Config.
const (
	DefaultTTL         = time.Hour
	DefaultMinTTL      = time.Minute
	DefaultMaxTTL      = 24 * time.Hour
	DefaultNegativeTTL = 10 * time.Minute
	DefaultFailureTTL  = 5 * time.Second
	DefaultMaxStale    = 24 * time.Hour
	DefaultMaxEntries  = 10_000
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

	TTL            time.Duration // lifetime of addresses without a TTL; default 1 h
	MinTTL, MaxTTL time.Duration // bounds of the TTL of addresses; default 1 min, 24 h
	NegativeTTL    time.Duration // maximum lifetime of "no such host"; default 10 min
	FailureTTL     time.Duration // lifetime of a temporary failure; default 5 s
	// MaxStale is how long after their lifetime addresses are used if lookups fail; default 24 h.
	MaxStale   time.Duration
	MaxEntries int // maximum number of cached names; default 10,000
}

// Validate returns all errors in c, joined.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"TTL", c.TTL}, {"MinTTL", c.MinTTL}, {"MaxTTL", c.MaxTTL},
		{"NegativeTTL", c.NegativeTTL}, {"FailureTTL", c.FailureTTL}, {"MaxStale", c.MaxStale},
	} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("resolve: %s is negative: %v", d.name, d.value))
		}
	}
	if c.MaxEntries < 0 {
		errs = append(errs, fmt.Errorf("resolve: MaxEntries is negative: %d", c.MaxEntries))
	}
	for host, addrs := range c.Overrides {
		if normalHost(host) == "" {
			errs = append(errs, fmt.Errorf("resolve: override of %q names no host", host))
		}
		if len(normalAddrs(addrs)) == 0 {
			errs = append(errs, fmt.Errorf("resolve: override of %q has no usable address", host))
		}
	}
	return errors.Join(errs...)
}

// withDefaults returns c with defaults in place of zero and negative values.
func (c Config) withDefaults() Config {
	setDefault(&c.TTL, DefaultTTL)
	setDefault(&c.MinTTL, DefaultMinTTL)
	setDefault(&c.MaxTTL, DefaultMaxTTL)
	setDefault(&c.NegativeTTL, DefaultNegativeTTL)
	setDefault(&c.FailureTTL, DefaultFailureTTL)
	setDefault(&c.MaxStale, DefaultMaxStale)
	setDefault(&c.MaxEntries, DefaultMaxEntries)
	if c.Lookup == nil {
		c.Lookup = NewClient(ClientConfig{}).Lookup
	}
	return c
}

func setDefault[T int | time.Duration | string](v *T, def T) {
	var zero T
	if *v <= zero {
		*v = def
	}
}

// normalHost returns the form of a name that is used for comparison.
func normalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
