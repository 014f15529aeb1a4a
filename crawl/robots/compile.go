package robots

import (
	"strconv"
	"strings"
	"time"

	"github.com/jimsmart/grobotstxt"

	"peerd/crawl/canon"
)

// compile parses the text of a robots.txt. Every text is valid.
func compile(body []byte) *Rules {
	c := &compiler{rules: &Rules{byAgent: make(map[string][]int)}}
	text := asciiText(body)
	grobotstxt.Parse(text, c)
	c.rules.size = c.rules.measure(text)
	return c.rules
}

// asciiText returns body with every byte beyond ASCII escaped and all escapes in upper case. This
// leaves nothing for the library to escape, which would corrupt the digits of lower-case escapes.
// A byte order mark before the first line is removed, also one of which only the first bytes are
// left, as Google's crawler does (google/robotstxt, robots.cc): it would hide the first line.
func asciiText(body []byte) string {
	text := string(body[commonPrefix(body, "\xef\xbb\xbf"):])
	var b strings.Builder
	b.Grow(len(text) + len(text)/8)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch escaped, ok := canon.Unescape(text, i); {
		case ok:
			canon.WriteEscape(&b, escaped)
			i += 2
		case c >= 0x80:
			canon.WriteEscape(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// commonPrefix returns the number of bytes with which both begin.
func commonPrefix(body []byte, mark string) (n int) {
	for n < min(len(body), len(mark)) && body[n] == mark[n] {
		n++
	}
	return n
}

// compiler collects the lines that the parser reports.
type compiler struct {
	rules *Rules
	// ruleRun has the tokens to which the next rule applies. According to the RFC, an unknown
	// line does not end a run of User-agent lines; therefore neither does a Crawl-delay.
	ruleRun run
	// delayRun has the tokens to which the next Crawl-delay applies. Any line other than
	// User-agent ends this run: some files specify only a delay for one agent and continue with
	// "User-agent: *".
	delayRun run
}

var _ grobotstxt.ParseHandler = (*compiler)(nil)

// run is a sequence of User-agent lines with the group that it opens.
type run struct {
	tokens []string
	group  int  // 1 + its index in Rules.groups, 0 before the first rule or delay
	closed bool // the next User-agent line begins a new run
}

func (u *run) add(token string) {
	if u.closed {
		*u = run{}
	}
	u.tokens = append(u.tokens, token)
}

// openGroup closes the run and returns its group, or nil if the run has no tokens.
func (u *run) openGroup(r *Rules) *group {
	if len(u.tokens) == 0 {
		return nil
	}
	u.closed = true
	if u.group == 0 {
		r.groups = append(r.groups, group{})
		u.group = len(r.groups)
		for _, token := range u.tokens {
			r.addToGroup(token, u.group-1)
		}
	}
	return &r.groups[u.group-1]
}

// addToGroup adds a token to a group, once even if its run contains it twice.
func (r *Rules) addToGroup(token string, group int) {
	groups := r.byAgent[token]
	if n := len(groups); n == 0 || groups[n-1] != group {
		r.byAgent[token] = append(groups, group)
	}
}

// HandleUserAgent opens a run or adds to it. From then on the token has rules of its own, even if
// there are none.
func (c *compiler) HandleUserAgent(_ int, value string) {
	token := strings.ToLower(productToken(value))
	if value == "*" || strings.HasPrefix(value, "* ") || strings.HasPrefix(value, "*\t") {
		token = "*"
	}
	if _, ok := c.rules.byAgent[token]; !ok {
		c.rules.byAgent[token] = nil
	}
	c.ruleRun.add(token)
	c.delayRun.add(token)
}

// HandleAllow adds a rule. As in Google's crawler, a rule that allows the index.html of a
// directory also allows the URL of the directory.
func (c *compiler) HandleAllow(line int, value string) {
	c.addRule(line, value, true)
	if i := strings.LastIndexByte(value, '/'); i >= 0 &&
		strings.HasPrefix(value[i:], "/index.htm") {
		c.addRule(line, value[:i+1]+"$", true)
	}
}

// HandleDisallow adds a rule.
func (c *compiler) HandleDisallow(line int, value string) { c.addRule(line, value, false) }

func (c *compiler) addRule(line int, value string, allow bool) {
	c.delayRun.closed = true
	g := c.ruleRun.openGroup(c.rules)
	if g == nil || value == "" { // an empty value matches nothing
		return
	}
	g.rules = append(g.rules, rule{newPattern(normalizePattern(value)), line, allow})
}

// HandleUnknownAction handles the Crawl-delay and Peerd-Peer lines.
func (c *compiler) HandleUnknownAction(_ int, action, value string) {
	switch strings.ToLower(action) {
	case "crawl-delay":
		c.setDelay(value)
	case "peerd-peer":
		if len(c.rules.peers) < maxPeers {
			c.rules.peers = append(c.rules.peers, value)
		}
	}
}

func (c *compiler) setDelay(value string) {
	delay, ok := parseDelay(value)
	if !ok {
		return
	}
	if g := c.delayRun.openGroup(c.rules); g != nil {
		g.delay, g.hasDelay = max(g.delay, delay), true
	}
}

// parseDelay parses decimal seconds.
func parseDelay(value string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0) { // rejects NaN as well
		return 0, false
	}
	if seconds >= MaxCrawlDelay.Seconds() {
		return MaxCrawlDelay, true
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// HandleSitemap records the value.
func (c *compiler) HandleSitemap(_ int, value string) {
	c.rules.sitemaps = append(c.rules.sitemaps, value)
}

// HandleRobotsStart does nothing.
func (c *compiler) HandleRobotsStart() {}

// HandleRobotsEnd does nothing.
func (c *compiler) HandleRobotsEnd() {}
