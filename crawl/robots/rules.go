package robots

import (
	"slices"
	"strings"
	"time"

	"peerd/store"
)

// MaxCrawlDelay bounds a Crawl-delay. Files that ask for days mean "go away"
// but do not say so; an hour is as slow as a queue can sensibly be.
const MaxCrawlDelay = time.Hour

// Rules are a compiled robots.txt. They are immutable and safe for concurrent
// use. The zero value allows all.
type Rules struct {
	closed   bool // nothing is allowed
	groups   []group
	byAgent  map[string][]int // product token in lower case, or "*", to groups
	sitemaps []string
}

// group is a run of User-agent lines and what follows it. A token may be in
// several groups; they count as one (RFC 9309, section 2.2.1).
type group struct {
	rules    []rule
	delay    time.Duration
	hasDelay bool
}

// rule is an Allow or Disallow line.
type rule struct {
	pattern
	allow bool
}

// Allowed says whether the crawler may fetch u. The agent is its product
// token, like "peerd"; what follows a "/" is ignored. The rule with the
// longest pattern decides, and Allow between equals (RFC 9309, section 2.2.2).
func (r *Rules) Allowed(agent string, u store.URL) bool {
	path := string(u[len(u.Origin()):])
	if path == "/robots.txt" {
		return true
	}
	if r.closed {
		return false
	}
	path = normalPath(path)
	longest, allowed := 0, true
	for _, g := range r.forAgent(agent) {
		for i := range r.groups[g].rules {
			rule := &r.groups[g].rules[i]
			if rule.length < longest || rule.length == longest && (allowed || !rule.allow) {
				continue
			}
			if rule.matches(path) {
				longest, allowed = rule.length, rule.allow
			}
		}
	}
	return allowed
}

// CrawlDelay returns the least time between two requests that the file asks of
// the agent, at most MaxCrawlDelay. Crawl-delay is no part of RFC 9309; its
// group is found like that of the rules.
func (r *Rules) CrawlDelay(agent string) (time.Duration, bool) {
	var longest time.Duration
	var found bool
	for _, g := range r.forAgent(agent) {
		if r.groups[g].hasDelay {
			longest, found = max(longest, r.groups[g].delay), true
		}
	}
	return longest, found
}

// Sitemaps returns the values of the Sitemap lines, as they stand.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }

// forAgent returns the groups of the agent's own token, or else those of "*".
func (r *Rules) forAgent(agent string) []int {
	if groups, ok := r.byAgent[strings.ToLower(productToken(agent))]; ok {
		return groups
	}
	return r.byAgent["*"]
}

// productToken is the token that a User-agent value or header begins with
// (RFC 9110, section 5.6.2: the bytes of a token).
func productToken(s string) string {
	for i := range len(s) {
		c := s[i]
		if !isUnreserved(c) && strings.IndexByte("!#$%&'*+^`|", c) < 0 {
			return s[:i]
		}
	}
	return s
}
