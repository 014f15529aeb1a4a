package scope

import (
	"errors"
	"net/netip"
	"regexp"
	"strings"

	"golang.org/x/net/publicsuffix"

	"peerd/store"
)

// Reasons why a URL is not allowed; test with errors.Is.
var (
	// ErrTooLong: the URL is longer than MaxURLLength.
	ErrTooLong = errors.New("scope: URL is too long")
	// ErrTooDeep: more than MaxDepth links lie between a seed and the URL.
	ErrTooDeep = errors.New("scope: URL is too deep")
	// ErrHost: the host is none of the network's.
	ErrHost = errors.New("scope: host is out of scope")
	// ErrNotIncluded: no include pattern matches.
	ErrNotIncluded = errors.New("scope: no include pattern matches")
	// ErrExcluded: an exclude pattern matches.
	ErrExcluded = errors.New("scope: an exclude pattern matches")
)

// Scope is the compiled form of Rules. It is immutable and safe for concurrent
// use.
type Scope struct {
	rules            Rules
	hosts, domains   map[string]bool
	include, exclude []*regexp.Regexp
}

// Compile validates the rules and adds what follows from the seeds: their
// hosts in the mode hosts, their registrable domains in the mode domains. A
// seed whose host has no registrable domain (an address, a single label, a
// public suffix itself) counts as a host. Rules that could allow nothing are a
// fault.
func Compile(r Rules, seeds []store.URL) (*Scope, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	s := &Scope{rules: r}
	// Validate has seen the errors of all four.
	s.hosts, _ = hostSet(r.Hosts)
	s.domains, _ = hostSet(r.Domains)
	s.include, _ = patterns("include", r.Include)
	s.exclude, _ = patterns("exclude", r.Exclude)
	for _, seed := range seeds {
		s.addSeed(seed.Host())
	}
	if s.boundToHosts() && len(s.hosts) == 0 && len(s.domains) == 0 {
		return nil, errors.New("scope: neither seeds nor hosts nor domains: nothing is in scope")
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

// registrableDomain is the part of a host that somebody registered.
func registrableDomain(host string) (string, bool) {
	if _, err := netip.ParseAddr(host); err == nil {
		return "", false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(host)
	return domain, err == nil
}

func (s *Scope) boundToHosts() bool {
	return s.rules.Mode == ModeHosts || s.rules.Mode == ModeDomains
}

// Rules returns what the scope was compiled from.
func (s *Scope) Rules() Rules { return s.rules }

// Allows returns nil if the network crawls u, found depth links from a seed;
// otherwise the reason, one of the package's errors.
func (s *Scope) Allows(u store.URL, depth int) error {
	switch r := &s.rules; {
	case r.MaxURLLength > 0 && len(u) > r.MaxURLLength:
		return ErrTooLong
	case r.MaxDepth > 0 && depth > r.MaxDepth:
		return ErrTooDeep
	case s.boundToHosts() && !s.takesHost(u.Host()):
		return ErrHost
	case matchesAny(s.exclude, u):
		return ErrExcluded
	case len(s.include) > 0 && !matchesAny(s.include, u):
		return ErrNotIncluded
	}
	return nil
}

// takesHost looks the host up, and then every domain above it.
func (s *Scope) takesHost(host string) bool {
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
	for _, re := range res {
		if re.MatchString(string(u)) {
			return true
		}
	}
	return false
}
