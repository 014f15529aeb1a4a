package robots

import (
	"bytes"
	"strconv"
	"strings"
	"time"

	"github.com/jimsmart/grobotstxt"
)

// compile parses the text of a robots.txt. Every text has a meaning.
func compile(body []byte) *Rules {
	c := &compiler{rules: &Rules{byAgent: make(map[string][]int)}}
	grobotstxt.Parse(asciiText(body), c)
	return c.rules
}

// asciiText writes every byte beyond ASCII as an escape and all escapes in
// upper case. Then the library has nothing to escape itself, which it does
// wrongly: it corrupts the digits of lower-case escapes.
func asciiText(body []byte) string {
	body = bytes.TrimPrefix(body, []byte("\xef\xbb\xbf"))
	var b strings.Builder
	b.Grow(len(body) + len(body)/8)
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c >= 0x80:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		case c == '%' && i+2 < len(body) && unhex(body[i+1]) < 16 && unhex(body[i+2]) < 16:
			b.WriteByte('%')
			b.WriteByte(upperHex[unhex(body[i+1])])
			b.WriteByte(upperHex[unhex(body[i+2])])
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// compiler collects the lines that the parser reports.
type compiler struct {
	rules *Rules
	// ruled are the tokens that the next rule is for. The RFC lets no unknown
	// line end a run of User-agent lines, so a Crawl-delay does not either.
	ruled run
	// delayed are the tokens that the next Crawl-delay is for. Any line but
	// User-agent ends this run: files give one agent nothing but a delay, and
	// go on with "User-agent: *".
	delayed run
}

var _ grobotstxt.ParseHandler = (*compiler)(nil)

// run is a run of User-agent lines with the group that it opens.
type run struct {
	tokens []string
	group  int  // 1 + its index in Rules.groups, 0 while nobody needs it
	closed bool // the next User-agent line begins a new run
}

func (u *run) add(token string) {
	if u.closed {
		*u = run{}
	}
	u.tokens = append(u.tokens, token)
}

// enter closes the run and returns its group, nil if it names nobody.
func (u *run) enter(r *Rules) *group {
	if len(u.tokens) == 0 {
		return nil
	}
	u.closed = true
	if u.group == 0 {
		r.groups = append(r.groups, group{})
		u.group = len(r.groups)
		for _, token := range u.tokens {
			r.join(token, u.group-1)
		}
	}
	return &r.groups[u.group-1]
}

// join puts a token into a group, once even if its run names it twice.
func (r *Rules) join(token string, group int) {
	groups := r.byAgent[token]
	if n := len(groups); n == 0 || groups[n-1] != group {
		r.byAgent[token] = append(groups, group)
	}
}

// HandleUserAgent opens a run or adds to it. A token that is named has rules
// of its own from then on, even if there are none.
func (c *compiler) HandleUserAgent(_ int, value string) {
	token := strings.ToLower(productToken(value))
	if value == "*" || strings.HasPrefix(value, "* ") || strings.HasPrefix(value, "*\t") {
		token = "*"
	}
	if _, ok := c.rules.byAgent[token]; !ok {
		c.rules.byAgent[token] = nil
	}
	c.ruled.add(token)
	c.delayed.add(token)
}

// HandleAllow adds a rule. As Google has it, allowing a folder's index.html
// allows the folder's own URL.
func (c *compiler) HandleAllow(line int, value string) {
	c.addRule(line, value, true)
	if i := strings.LastIndexByte(value, '/'); i >= 0 && strings.HasPrefix(value[i:], "/index.htm") {
		c.addRule(line, value[:i+1]+"$", true)
	}
}

// HandleDisallow adds a rule.
func (c *compiler) HandleDisallow(line int, value string) { c.addRule(line, value, false) }

func (c *compiler) addRule(line int, value string, allow bool) {
	c.delayed.closed = true
	g := c.ruled.enter(c.rules)
	if g == nil || value == "" { // an empty value matches nothing
		return
	}
	g.rules = append(g.rules, rule{newPattern(normalPattern(value)), line, allow})
}

// HandleUnknownAction picks out the Crawl-delay lines.
func (c *compiler) HandleUnknownAction(_ int, action, value string) {
	if !strings.EqualFold(action, "crawl-delay") {
		return
	}
	delay, ok := parseDelay(value)
	if !ok {
		return
	}
	if g := c.delayed.enter(c.rules); g != nil {
		g.delay, g.hasDelay = max(g.delay, delay), true
	}
}

// parseDelay reads decimal seconds.
func parseDelay(value string) (time.Duration, bool) {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil || !(seconds >= 0) { // also catches NaN
		return 0, false
	}
	if seconds >= MaxCrawlDelay.Seconds() {
		return MaxCrawlDelay, true
	}
	return time.Duration(seconds * float64(time.Second)), true
}

// HandleSitemap keeps the value.
func (c *compiler) HandleSitemap(_ int, value string) {
	c.rules.sitemaps = append(c.rules.sitemaps, value)
}

// HandleRobotsStart does nothing.
func (c *compiler) HandleRobotsStart() {}

// HandleRobotsEnd does nothing.
func (c *compiler) HandleRobotsEnd() {}
