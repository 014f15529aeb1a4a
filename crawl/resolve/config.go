package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"
)

// The defaults of Config.
const (
	DefaultTTL         = time.Hour
	DefaultNegativeTTL = 10 * time.Minute
	DefaultRetry       = 5 * time.Second
	DefaultTimeout     = 10 * time.Second
	DefaultMax         = 10_000
)

// maxAddrs bounds the addresses kept of one answer. A crawler dials the first.
const maxAddrs = 16

// Config says how names are resolved. Zero fields mean the default.
type Config struct {
	// Overrides answers for these hosts instead of any lookup, for good. Names
	// are compared in lower case and without a trailing dot.
	Overrides map[string][]netip.Addr
	// Lookup asks for the addresses of a host. An error that is ErrNotFound or
	// a *net.DNSError with IsNotFound is final, any other is temporary. It may
	// be called by several goroutines at once, for different hosts. Nil means
	// the system's name servers.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)

	TTL         time.Duration // how long an answer counts; default 1 h
	NegativeTTL time.Duration // how long "no such host" counts; default 10 min
	Retry       time.Duration // how long a temporary failure counts; default 5 s
	Timeout     time.Duration // longest lookup; default 10 s
	Max         int           // names remembered; default 10,000
}

// DefaultConfig returns a Config with every default spelt out.
func DefaultConfig() Config { return Config{}.withDefaults() }

// Validate reports everything that is wrong with c, in one error.
func (c Config) Validate() error {
	var errs []error
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"TTL", c.TTL}, {"NegativeTTL", c.NegativeTTL}, {"Retry", c.Retry}, {"Timeout", c.Timeout}} {
		if d.value < 0 {
			errs = append(errs, fmt.Errorf("resolve: %s is negative: %v", d.name, d.value))
		}
	}
	if c.Max < 0 {
		errs = append(errs, fmt.Errorf("resolve: Max is negative: %d", c.Max))
	}
	for host, addrs := range c.Overrides {
		if normalHost(host) == "" {
			errs = append(errs, fmt.Errorf("resolve: override for no host: %q", host))
		}
		if len(normalAddrs(addrs)) == 0 {
			errs = append(errs, fmt.Errorf("resolve: override of %q has no usable address", host))
		}
	}
	return errors.Join(errs...)
}

// withDefaults returns c with defaults where a field is zero or, as Validate
// would have told, negative.
func (c Config) withDefaults() Config {
	setDefault(&c.TTL, DefaultTTL)
	setDefault(&c.NegativeTTL, DefaultNegativeTTL)
	setDefault(&c.Retry, DefaultRetry)
	setDefault(&c.Timeout, DefaultTimeout)
	setDefault(&c.Max, DefaultMax)
	if c.Lookup == nil {
		c.Lookup = systemLookup
	}
	return c
}

func setDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// normalHost is the form in which names are compared.
func normalHost(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
