package scope

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"peerd/crawl/canon"
)

// Modes of Rules.
const (
	ModeHosts   = "hosts"   // the hosts of the seeds, and Hosts
	ModeDomains = "domains" // the registrable domains of the seeds, and Domains, with all below them; also Hosts
	ModeRegex   = "regex"   // whatever an Include pattern matches
	ModeAny     = "any"     // the whole web
)

// Rules say which URLs belong to a network. Limits of zero mean none.
type Rules struct {
	// Mode is one of the Mode constants.
	Mode string
	// Hosts are host names without port, taken in the modes hosts and domains.
	Hosts []string
	// Domains are domains, taken with every host below them in the mode
	// domains.
	Domains []string
	// Include holds regular expressions (RE2), unanchored, over the whole
	// canonical URL. If there are any, a URL must match one of them, in every
	// mode.
	Include []string
	// Exclude holds regular expressions like Include; a URL must match none.
	Exclude []string
	// MaxURLLength bounds a URL, in bytes.
	MaxURLLength int
	// MaxDepth bounds the number of links between a seed and a URL.
	MaxDepth int
	// MaxPagesPerHost bounds the URLs of one host. The host's owner counts;
	// Scope.Allows does not know it.
	MaxPagesPerHost int64
}

// Validate reports every fault of r.
func (r Rules) Validate() error {
	errs := []error{r.checkMode()}
	_, err := hostSet(r.Hosts)
	errs = append(errs, err)
	_, err = hostSet(r.Domains)
	errs = append(errs, err)
	_, err = patterns("include", r.Include)
	errs = append(errs, err)
	_, err = patterns("exclude", r.Exclude)
	errs = append(errs, err)
	for _, limit := range []struct {
		name string
		n    int64
	}{{"max URL length", int64(r.MaxURLLength)}, {"max depth", int64(r.MaxDepth)}, {"max pages per host", r.MaxPagesPerHost}} {
		if limit.n < 0 {
			errs = append(errs, fmt.Errorf("scope: %s is %d, want at least 0", limit.name, limit.n))
		}
	}
	return errors.Join(errs...)
}

// checkMode reports a mode that does not exist, or that leaves a list unused.
func (r Rules) checkMode() error {
	modes := []string{ModeHosts, ModeDomains, ModeRegex, ModeAny}
	switch {
	case !slices.Contains(modes, r.Mode):
		return fmt.Errorf("scope: mode is %q, want one of %s", r.Mode, strings.Join(modes, ", "))
	case r.Mode == ModeRegex && len(r.Include) == 0:
		return errors.New("scope: mode regex needs an include pattern")
	case len(r.Hosts) > 0 && r.Mode != ModeHosts && r.Mode != ModeDomains:
		return fmt.Errorf("scope: mode %s takes no hosts", r.Mode)
	case len(r.Domains) > 0 && r.Mode != ModeDomains:
		return fmt.Errorf("scope: mode %s takes no domains", r.Mode)
	}
	return nil
}

// hostSet returns the canonical forms of host names or IP addresses.
func hostSet(names []string) (map[string]bool, error) {
	set := make(map[string]bool, len(names))
	var errs []error
	for _, name := range names {
		host, ok := canonicalHost(name)
		if !ok {
			errs = append(errs, fmt.Errorf("scope: %q is no host name", name))
			continue
		}
		set[host] = true
	}
	return set, errors.Join(errs...)
}

// canonicalHost returns name as store.URL.Host would.
func canonicalHost(name string) (string, bool) {
	if a, err := netip.ParseAddr(name); err == nil && a.Is6() {
		name = "[" + name + "]"
	} else if strings.ContainsAny(name, ":/\\?#@ \t\r\n") { // a URL rather than a host
		return "", false
	}
	u, err := canon.Parse("http://" + name + "/")
	return u.Host(), err == nil
}

func patterns(name string, exprs []string) ([]*regexp.Regexp, error) {
	var res []*regexp.Regexp
	var errs []error
	for _, expr := range exprs {
		re, err := regexp.Compile(expr)
		if err != nil {
			errs = append(errs, fmt.Errorf("scope: %s: %w", name, err))
			continue
		}
		res = append(res, re)
	}
	return res, errors.Join(errs...)
}
