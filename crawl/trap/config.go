package trap

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"peerd/internal/faults"
)

// Config holds the switches and limits. A value equal to its limit passes.
type Config struct {
	// On is the set of active heuristics; see Parse for configuration files.
	On Set

	MaxLength int // bytes of a URL
	MaxDepth  int // segments of a path, including empty ones
	MaxParams int // parameters of a query, separated by & or ;

	// MaxRepeat limits how often a segment, or a sequence of segments, may occur in a row,
	// and how often a query may repeat a parameter with the same value. A segment may occur
	// twice as often if others are in between. Segments of one byte may repeat, because
	// sharded directories have them.
	MaxRepeat int

	// MaxSessions limits, per host, the distinct random values of a parameter named for
	// session identifiers (jsessionid, PHPSESSID, ...).
	MaxSessions int
	// MaxTokens limits the distinct random values of any other parameter of one path. The
	// limit is higher because such values may be names.
	MaxTokens int

	// MaxFacets limits, for one path, the distinct queries of two or more parameters, with
	// numbers and tokens replaced.
	MaxFacets int

	// MaxYield is the number of pages found on copies, in a row and without yield, after
	// which no more of them are fetched; see Observe.
	MaxYield int
	// MaxClosed is the number of pages of a shape, or of the queries of one path, that are
	// fetched while only pages of the same kind link to them and they link to no others.
	// Each linking registered domain adds the same number, as for Quota.
	MaxClosed int

	// Quota is the number of URLs allowed on a host to which no other domain links. Each
	// linking registered domain, up to MaxDomains, adds the same number. This follows
	// IRLbot's STAR (Lee, Leonard, Wang, Loguinov 2008), where the budget of a domain grows
	// linearly with the domains that link to it.
	Quota, MaxDomains int

	// MaxHosts limits the hosts below a registered domain, and MaxGenerated those with
	// generated names.
	MaxHosts, MaxGenerated int
}

// DefaultConfig returns a Config with all heuristics on. It drops nothing of large
// legitimate sites, which may have tens of thousands of documents, deep paths, long names,
// numbered chapters, and many versions of everything.
func DefaultConfig() Config {
	return Config{
		On:           All,
		MaxLength:    2000,
		MaxDepth:     32,
		MaxParams:    32,
		MaxRepeat:    3,
		MaxSessions:  1_000,
		MaxTokens:    20_000,
		MaxFacets:    20_000,
		MaxYield:     300,
		MaxClosed:    400,
		Quota:        250_000,
		MaxDomains:   1_000,
		MaxHosts:     20_000,
		MaxGenerated: 400,
	}
}

// Validate returns an error that lists every fault of c.
func (c Config) Validate() error {
	f := faults.Of("trap")
	f.If(c.On&^All != 0, "set %#x has unknown heuristics", uint16(c.On))
	for name, limit := range c.limits() {
		f.If(*limit < 1 && name != "domains",
			"limit %s is %d, want at least 1 (heuristics are switched off by name)", name, *limit)
	}
	f.If(c.MaxDomains < 0, "limit domains is %d, want at least 0", c.MaxDomains)
	return f.Err()
}

// limits maps the names in configuration files to the limits.
func (c *Config) limits() map[string]*int {
	return map[string]*int{
		"length": &c.MaxLength, "depth": &c.MaxDepth, "params": &c.MaxParams,
		"repeat":   &c.MaxRepeat,
		"sessions": &c.MaxSessions, "tokens": &c.MaxTokens, "facets": &c.MaxFacets,
		"yield": &c.MaxYield, "closed": &c.MaxClosed, "quota": &c.Quota, "domains": &c.MaxDomains,
		"hosts": &c.MaxHosts, "generated_hosts": &c.MaxGenerated,
	}
}

// SetLimit sets the named limit. It does not validate n; see Validate.
func (c *Config) SetLimit(name string, n int) error {
	limits := c.limits()
	at, ok := limits[name]
	if !ok {
		return fmt.Errorf("trap: unknown limit %q, want one of %s",
			name, strings.Join(slices.Sorted(maps.Keys(limits)), ", "))
	}
	*at = n
	return nil
}
