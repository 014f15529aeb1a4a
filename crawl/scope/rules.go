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
	ModeHosts = "hosts" // the hosts of the seeds, and Hosts
	// the registrable domains of the seeds, Domains with all hosts below, and Hosts
	ModeDomains = "domains"
	ModeRegex   = "regex" // whatever an Include pattern matches
	ModeAny     = "any"   // the whole web
)

// Rules define which URLs belong to a network. A limit of zero means no limit.
type Rules struct {
	// Mode is one of the Mode constants.
	Mode string
	// Hosts lists host names without port, for the modes hosts and domains.
	Hosts []string
	// Domains lists domains, included with every host below them in the mode domains.
	Domains []string
	// Include holds regular expressions (RE2) that are matched, unanchored, against the
	// whole canonical URL. If there are any, a URL must match at least one, in every mode.
	Include []string
	// Exclude holds regular expressions like Include; a URL must match none.
	Exclude []string
	// MaxURLLength is the maximum length of a URL in bytes.
	MaxURLLength int
	// MaxDepth is the maximum number of links between a seed and a URL.
	MaxDepth int
}

// Validate returns an error that lists every fault of r.
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
		n    int
	}{{"max URL length", r.MaxURLLength}, {"max depth", r.MaxDepth}} {
		if limit.n < 0 {
			errs = append(errs, fmt.Errorf("scope: %s is %d, want at least 0", limit.name, limit.n))
		}
	}
	return errors.Join(errs...)
}

// checkMode returns an error for an unknown mode, or one that leaves a list unused.
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
			errs = append(errs, fmt.Errorf("scope: %q is not a host name", name))
			continue
		}
		set[host] = true
	}
	return set, errors.Join(errs...)
}

// canonicalHost returns the form of name that store.URL.Host returns.
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
