package trap

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Config holds the switches and limits. A limit is the largest that passes.
type Config struct {
	// On are the heuristics that are asked; see Parse for configuration files.
	On Set

	MaxLength int // bytes of a URL
	MaxDepth  int // segments of a path, empty ones included
	MaxParams int // parameters of a query, divided by & or ;

	// MaxRepeat bounds how often a segment, or a sequence of segments, may
	// stand in a row, and how often a query may repeat one parameter with its
	// value. A segment may come twice as often if other segments stand between.
	// Segments of one byte may repeat: they are levels of sharded folders.
	MaxRepeat int

	// MaxDates bounds the distinct dates of a shape: days, or months if there
	// are no days.
	MaxDates int
	// MaxFarDates is the same for dates more than YearsAhead after now, or more
	// than YearsBack before.
	MaxFarDates           int
	YearsAhead, YearsBack int

	// MaxSessions bounds, per host, the distinct values of a parameter whose
	// name is one for session numbers (jsessionid, PHPSESSID, ...) and whose
	// values look random.
	MaxSessions int
	// MaxTokens bounds the distinct random values of any other parameter of one
	// path: what looks random may be the names of things.
	MaxTokens int

	// MaxFacets bounds, for one path, the distinct queries of two parameters or
	// more, numbers and tokens not told apart; MaxOrders the distinct sequences
	// of parameter names in them.
	MaxFacets, MaxOrders int

	// MaxNumbers bounds the URLs of a shape that has digits in it.
	MaxNumbers int

	// Quota is the number of URLs of a host that no other domain links to; each
	// registered domain that does adds as much again, up to MaxDomains of them
	// (after IRLbot's STAR: Lee, Leonard, Wang, Loguinov 2008, which lets the
	// budget of a domain grow linearly with the domains that link to it).
	Quota, MaxDomains int

	// MaxHosts bounds the hosts below a registered domain; MaxGenerated those
	// whose names look generated, MaxWildcard these if every name below the
	// domain resolves.
	MaxHosts, MaxGenerated, MaxWildcard int
}

// DefaultConfig returns a Config with everything on that loses nothing of large
// honest sites: ten-thousands of documents, deep paths, long names, numbered
// chapters, versions of everything.
func DefaultConfig() Config {
	return Config{
		On:           All,
		MaxLength:    2000,
		MaxDepth:     32,
		MaxParams:    32,
		MaxRepeat:    3,
		MaxDates:     10_000, // 27 years of days
		MaxFarDates:  200,
		YearsAhead:   2,
		YearsBack:    400, // digitized newspapers begin in the 17th century
		MaxSessions:  1_000,
		MaxTokens:    20_000,
		MaxFacets:    20_000,
		MaxOrders:    1_000,
		MaxNumbers:   100_000,
		Quota:        250_000,
		MaxDomains:   1_000,
		MaxHosts:     20_000,
		MaxGenerated: 500,
		MaxWildcard:  50,
	}
}

// Validate reports every fault of c.
func (c Config) Validate() error {
	var errs []error
	if c.On&^All != 0 {
		errs = append(errs, fmt.Errorf("trap: set %#x has unknown heuristics", uint16(c.On)))
	}
	for _, limit := range []struct {
		name string
		n    int
	}{
		{"length", c.MaxLength}, {"depth", c.MaxDepth}, {"params", c.MaxParams}, {"repeat", c.MaxRepeat},
		{"dates", c.MaxDates}, {"far dates", c.MaxFarDates}, {"sessions", c.MaxSessions}, {"tokens", c.MaxTokens},
		{"facets", c.MaxFacets}, {"orders", c.MaxOrders}, {"numbers", c.MaxNumbers}, {"quota", c.Quota},
		{"hosts", c.MaxHosts}, {"generated hosts", c.MaxGenerated}, {"hosts of a wildcard", c.MaxWildcard},
	} {
		if limit.n < 1 {
			errs = append(errs, fmt.Errorf("trap: limit of %s is %d, want at least 1 (heuristics are switched off by name)", limit.name, limit.n))
		}
	}
	for _, n := range []int{c.YearsAhead, c.YearsBack, c.MaxDomains} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("trap: %d is negative: years ahead, years back or linking domains", n))
		}
	}
	return errors.Join(errs...)
}

// limits are the limits by their names in configuration files.
func (c *Config) limits() map[string]*int {
	return map[string]*int{
		"length": &c.MaxLength, "depth": &c.MaxDepth, "params": &c.MaxParams, "repeat": &c.MaxRepeat,
		"dates": &c.MaxDates, "far_dates": &c.MaxFarDates, "years_ahead": &c.YearsAhead, "years_back": &c.YearsBack,
		"sessions": &c.MaxSessions, "tokens": &c.MaxTokens, "facets": &c.MaxFacets, "orders": &c.MaxOrders,
		"numbers": &c.MaxNumbers, "quota": &c.Quota, "domains": &c.MaxDomains,
		"hosts": &c.MaxHosts, "generated_hosts": &c.MaxGenerated, "wildcard_hosts": &c.MaxWildcard,
	}
}

// SetLimit changes the limit of that name. Validate says whether n will do.
func (c *Config) SetLimit(name string, n int) error {
	limits := c.limits()
	at, ok := limits[name]
	if !ok {
		return fmt.Errorf("trap: no limit is called %q, there are %s", name, strings.Join(slices.Sorted(maps.Keys(limits)), ", "))
	}
	*at = n
	return nil
}
