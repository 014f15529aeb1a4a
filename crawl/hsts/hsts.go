package hsts

import (
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"peerd/internal/lru"
)

// maxAge bounds the time for which a host is remembered without being fetched again.
const maxAge = 2 * 365 * 24 * time.Hour

// Policy is what a host wants. The zero Policy is that of a host without HSTS.
type Policy struct {
	Expires    time.Time `cbor:"1,keyasint"`
	SubDomains bool      `cbor:"2,keyasint,omitempty"` // also for all hosts below it
}

// Parse returns the policy of a Strict-Transport-Security field received now (RFC 6797, section
// 6.1). A max-age of 0 gives a policy that has expired. ok is false if the field is invalid.
func Parse(field string, now time.Time) (p Policy, ok bool) {
	seen := map[string]bool{}
	for directive := range strings.SplitSeq(field, ";") {
		name, value, hasValue := strings.Cut(directive, "=")
		name = strings.ToLower(strings.Trim(name, " \t"))
		value = strings.Trim(value, " \t")
		if name == "" && !hasValue {
			continue
		}
		if seen[name] {
			return Policy{}, false
		}
		seen[name] = true
		switch name {
		case "max-age":
			if unquoted, quoted := strings.CutPrefix(value, `"`); quoted {
				value = strings.TrimSuffix(unquoted, `"`)
			}
			seconds, err := strconv.ParseUint(value, 10, 64)
			if err != nil && strings.Trim(value, "0123456789") != "" || value == "" {
				return Policy{}, false
			}
			age := maxAge // also of a number that is too large
			if err == nil && seconds < uint64(maxAge/time.Second) {
				age = time.Duration(seconds) * time.Second
			}
			p.Expires = now.Add(age)
		case "includesubdomains":
			p.SubDomains = true
		}
	}
	return p, seen["max-age"]
}

// Set holds the policies of hosts. Its methods are safe for concurrent use.
type Set struct {
	mu    sync.Mutex
	hosts *lru.Simple[string, Policy]
}

// New returns an empty set of at most n hosts.
func New(n int) *Set {
	return &Set{hosts: lru.NewSimple[string, Policy](n, nil)}
}

// Load adds a stored policy unless it has expired by now. It returns the host of which the policy
// need not be stored any longer: this one, or one that was forgotten for it; "": none.
func (s *Set) Load(host string, p Policy, now time.Time) (forgotten string) {
	if !p.Expires.After(now) {
		return host
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addLocked(host, p)
}

// addLocked adds a host and returns the one that was forgotten for it.
func (s *Set) addLocked(host string, p Policy) (forgotten string) {
	oldest, _, _ := s.hosts.GetOldest()
	if s.hosts.Add(strings.Clone(host), p) {
		return oldest
	}
	return ""
}

// Change is what a caller must store: the policy of a host, or that it has none any more.
type Change struct {
	Host   string
	Policy Policy
	Delete bool
}

// Note records the field that a host has sent, and returns what must be stored. That is nothing if
// the policy is known and its time has not become longer by more than a tenth.
func (s *Set) Note(host, field string, now time.Time) []Change {
	p, ok := Parse(field, now)
	if _, err := netip.ParseAddr(host); err == nil || !ok { // not for addresses (section 8.1.1)
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.hosts.Get(host)
	switch {
	case !p.Expires.After(now) && !known:
		return nil
	case !p.Expires.After(now):
		s.hosts.Remove(host)
		return []Change{{Host: host, Delete: true}}
	case known && p.SubDomains == old.SubDomains &&
		p.Expires.Sub(old.Expires).Abs() < p.Expires.Sub(now)/10:
		return nil
	}
	changes := []Change{{Host: host, Policy: p}}
	if forgotten := s.addLocked(host, p); forgotten != "" {
		changes = append(changes, Change{Host: forgotten, Delete: true})
	}
	return changes
}

// Applies reports whether a host must be fetched over TLS, because of its own policy or one above
// it (section 8.2).
func (s *Set) Applies(host string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hosts.Len() == 0 {
		return false
	}
	for name, own := host, true; ; own = false {
		if p, ok := s.hosts.Get(name); ok && p.Expires.After(now) && (own || p.SubDomains) {
			return true
		}
		var more bool
		if _, name, more = strings.Cut(name, "."); !more {
			return false
		}
	}
}

// Len returns the number of hosts in the set.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hosts.Len()
}
