package scope

import (
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"

	"peerd/store"
)

// Reasons for which a URL is not allowed; test with errors.Is.
var (
	// ErrTooLong: the URL is longer than MaxURLLength.
	ErrTooLong = errors.New("scope: URL is too long")
	// ErrTooDeep: more than MaxDepth links are between a seed and the URL.
	ErrTooDeep = errors.New("scope: URL is too deep")
	// ErrHost: the host does not belong to the network.
	ErrHost = errors.New("scope: host is out of scope")
	// ErrNotIncluded: no include pattern matches.
	ErrNotIncluded = errors.New("scope: no include pattern matches")
	// ErrExcluded: an exclude pattern matches.
	ErrExcluded = errors.New("scope: an exclude pattern matches")
)

// Scope is the compiled form of Rules. It is immutable and safe for concurrent use.
type Scope struct {
	rules            Rules
	hosts, domains   map[string]bool
	include, exclude []*regexp.Regexp
}

// Compile validates the rules and adds what follows from the seeds: their hosts in the mode
// hosts, their registrable domains in the mode domains. A seed without a registrable domain
// (an address, a single label, a public suffix) counts as a host. Rules that cannot allow
// any URL are an error.
func Compile(r Rules, seeds []store.URL) (*Scope, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	s := &Scope{rules: r}
	// Validate has reported the errors of all four.
	s.hosts, _ = hostSet(r.Hosts)
	s.domains, _ = hostSet(r.Domains)
	s.include, _ = patterns("include", r.Include)
	s.exclude, _ = patterns("exclude", r.Exclude)
	for _, seed := range seeds {
		s.addSeed(seed.Host())
	}
	if s.limitsHosts() && len(s.hosts) == 0 && len(s.domains) == 0 {
		return nil, errors.New("scope: no seeds, hosts or domains: no URL is in scope")
	}
	return s, nil
}

func (s *Scope) addSeed(host string) {
	switch s.rules.Mode {
	case ModeHosts:
		s.hosts[host] = true
	case ModeDomains:
		if domain, ok := registrableDomain(host); ok {
			s.domains[domain] = true
		} else {
			s.hosts[host] = true
		}
	}
}

// registrableDomain returns the registrable domain of a host.
func registrableDomain(host string) (string, bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return "", false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return domain, err == nil
}

func (s *Scope) limitsHosts() bool {
	return s.rules.Mode == ModeHosts || s.rules.Mode == ModeDomains
}

// Allows returns nil if the network crawls u, which was found depth links from a seed.
// Otherwise it returns the reason, one of the errors of this package.
func (s *Scope) Allows(u store.URL, depth int) error {
	switch r := &s.rules; {
	case r.MaxURLLength > 0 && len(u) > r.MaxURLLength:
		return ErrTooLong
	case r.MaxDepth > 0 && depth > r.MaxDepth:
		return ErrTooDeep
	case s.limitsHosts() && !s.includesHost(u.Host()):
		return ErrHost
	case matchesAny(s.exclude, u):
		return ErrExcluded
	case len(s.include) > 0 && !matchesAny(s.include, u):
		return ErrNotIncluded
	}
	return nil
}

// includesHost looks up the host and every domain above it.
func (s *Scope) includesHost(host string) bool {
	if s.hosts[host] {
		return true
	}
	if len(s.domains) == 0 {
		return false
	}
	for domain := host; ; {
		if s.domains[domain] {
			return true
		}
		_, above, ok := strings.Cut(domain, ".")
		if !ok {
			return false
		}
		domain = above
	}
}

func matchesAny(res []*regexp.Regexp, u store.URL) bool {
	return slices.ContainsFunc(res, func(re *regexp.Regexp) bool {
		return re.MatchString(string(u))
	})
}
