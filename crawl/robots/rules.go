package robots

import (
	"slices"
	"strings"
	"time"

	"peerd/store"
)

// MaxCrawlDelay is the maximum Crawl-delay. Some files request days, when they intend to disallow
// everything; an hour is the slowest rate that is useful for a queue.
const MaxCrawlDelay = time.Hour

// Rules are a compiled robots.txt. They are immutable and safe for concurrent use. The zero value
// allows everything.
type Rules struct {
	denyAll  bool
	groups   []group
	byAgent  map[string][]int // product token in lower case, or "*", to groups
	sitemaps []string
	peers    []string
	size     int // see Size
}

// group is a sequence of User-agent lines with the rules that follow it. A token may be in several
// groups, which are treated as one (RFC 9309, section 2.2.1).
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

// Allowed reports whether the crawler may fetch u, as Match does.
func (r *Rules) Allowed(agent string, u store.URL) bool {
	allowed, _ := r.Match(agent, u)
	return allowed
}

// Match reports whether the crawler may fetch u, and the number of the line that decides, starting
// at 1; 0 if no line does. The agent is a product token, such as "peerd", or a User-Agent field
// that begins with one. In RFC 9309 a token consists of letters, "-" and "_"; a token with other
// characters has no group of its own. The rule with the longest pattern decides; of several, an
// Allow rule; of several of those, the first (RFC 9309, section 2.2.2). If there are so many rules
// with stars that maxWork is used up, a further one counts as matching from its first star on if it
// is a Disallow rule, and not at all otherwise.
func (r *Rules) Match(agent string, u store.URL) (allowed bool, line int) {
	target := string(u[len(u.Origin()):])
	if target == path {
		return true, 0
	}
	if r.denyAll {
		return false, 0
	}
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	target = normalizePath(target)
	work := maxWork
	longest, allowed, line := 0, true, 0
	for _, g := range r.forAgent(agent) {
		for i := range r.groups[g].rules {
			rule := &r.groups[g].rules[i]
			if rule.length < longest || rule.length == longest && (allowed || !rule.allow) {
				continue
			}
			if rule.matches(target, &work, !rule.allow) {
				longest, allowed, line = rule.length, rule.allow, rule.line
			}
		}
	}
	return allowed, line
}

// CrawlDelay returns the minimum time between two requests of the agent that the file requests, at
// most MaxCrawlDelay, and whether there is one. Crawl-delay is not part of RFC 9309; its group is
// determined like that of the rules.
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

// Sitemaps returns the values of the Sitemap lines, unchanged.
func (r *Rules) Sitemaps() []string { return slices.Clone(r.sitemaps) }

// NamesPeer reports whether a line "Peerd-Peer: ID" names a peer. The site states by it that the
// peer may say which pages have changed, and report them. The line is not part of RFC 9309, which
// tells crawlers to ignore lines that they do not know (section 2.2.4). At most maxPeers such lines
// count.
func (r *Rules) NamesPeer(id string) bool { return slices.Contains(r.peers, id) }

// Peers returns the IDs for which NamesPeer is true, in the order of the file.
func (r *Rules) Peers() []string { return slices.Clone(r.peers) }

// maxPeers is the number of peers that a robots.txt can name.
const maxPeers = 16

// Size returns about how many bytes of memory r takes: several times the length of the file.
func (r *Rules) Size() int { return r.size }

// measure returns the size of rules of which the strings are parts of a text.
func (r *Rules) measure(text string) int {
	// Of elements of slices and maps, with what these have reserved.
	const perString, perRule, perAgent = 20, 96, 128
	n := len(text) + perString*(len(r.sitemaps)+len(r.peers)) + perAgent*len(r.byAgent)
	for _, g := range r.groups {
		n += perRule * (1 + len(g.rules))
		for i := range g.rules {
			n += g.rules[i].length + perString*len(g.rules[i].parts)
		}
	}
	return n
}

// forAgent returns the groups of the token of the agent, or those of "*" if there are none.
func (r *Rules) forAgent(agent string) []int {
	if token := agentToken(agent); token != "" {
		if groups, ok := r.byAgent[token]; ok {
			return groups
		}
	}
	return r.byAgent["*"]
}

// agentToken returns the product token of a crawler in lower case: the part before a version or
// comment (RFC 9110, section 10.1.5). It does not end at other characters: "Foo Bar" is not Foo.
func agentToken(agent string) string {
	agent, _, _ = strings.Cut(agent, "/")
	agent, _, _ = strings.Cut(agent, " (")
	return strings.ToLower(agent)
}

// productToken returns the token at the beginning of the value of a User-agent line: letters, "-"
// and "_" (RFC 9309, section 2.2.1).
func productToken(s string) string {
	for i := range len(s) {
		if c := s[i]; c != '-' && c != '_' && (c|0x20 < 'a' || c|0x20 > 'z') {
			return s[:i]
		}
	}
	return s
}
