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
	line  int // in the file, from 1
	allow bool
}

// Allowed says whether the crawler may fetch u, as Match does.
func (r *Rules) Allowed(agent string, u store.URL) bool {
	allowed, _ := r.Match(agent, u)
	return allowed
}

// Match says whether the crawler may fetch u, and which line of the file says
// so: its number from 1, or 0 if no line does. The agent is a product token,
// like "peerd", or a User-Agent header that begins with one; RFC 9309 wants
// letters, "-" and "_" in a token, and one with anything else has no group of
// its own. The rule with the longest pattern decides, Allow between equals, the
// first between equals of one kind (RFC 9309, section 2.2.2).
func (r *Rules) Match(agent string, u store.URL) (allowed bool, line int) {
	path := string(u[len(u.Origin()):])
	if path == "/robots.txt" {
		return true, 0
	}
	if r.closed {
		return false, 0
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	path = normalPath(path)
	longest, allowed, line := 0, true, 0
	for _, g := range r.forAgent(agent) {
		for i := range r.groups[g].rules {
			rule := &r.groups[g].rules[i]
			if rule.length < longest || rule.length == longest && (allowed || !rule.allow) {
				continue
			}
			if rule.matches(path) {
				longest, allowed, line = rule.length, rule.allow, rule.line
			}
		}
	}
	return allowed, line
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
	if token := agentToken(agent); token != "" {
		if groups, ok := r.byAgent[token]; ok {
			return groups
		}
	}
	return r.byAgent["*"]
}

// agentToken returns the product token of a crawler in lower case: what stands
// before a version or comment (RFC 9110, section 10.1.5). It is not cut at
// other bytes: "Foo Bar" is not Foo.
func agentToken(agent string) string {
	agent, _, _ = strings.Cut(agent, "/")
	agent, _, _ = strings.Cut(agent, " (")
	return strings.ToLower(agent)
}

// productToken is the token that the value of a User-agent line begins with
// (RFC 9309, section 2.2.1: letters, "-" and "_").
func productToken(s string) string {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return s[:i]
		}
	}
	return s
}
