package extract

import (
	"strings"
	"time"
)

// appliesTo reports whether a meta element with a name applies to this crawler.
func (c *collector) appliesTo(name string) bool {
	return strings.EqualFold(name, "robots") || c.namesAgent(name)
}

// namesAgent reports whether directives for an agent apply to this crawler.
func (c *collector) namesAgent(agent string) bool {
	return agent == "*" || c.o.Agent != "" && strings.EqualFold(agent, c.o.Agent)
}

// parse adds the directives of a field or attribute: words separated by commas or white space, some
// with a value after a colon. Any other "name:", which only X-Robots-Tag uses, names the agent to
// which the rest applies; forUs reports whether that is this crawler.
func (r *Robots) parse(s string, forUs func(agent string) bool) {
	applies := true
	for {
		s = strings.TrimLeft(s, ","+whiteSpace)
		if s == "" {
			return
		}
		n := strings.IndexAny(s, ":,"+whiteSpace)
		if n < 0 {
			n = len(s)
		}
		word := s[:n]
		s = strings.TrimLeft(s[n:], whiteSpace)
		value, hasValue := strings.CutPrefix(s, ":")
		switch {
		case !hasValue:
			if applies {
				r.apply(word)
			}
		case strings.EqualFold(word, "unavailable_after"):
			var t time.Time
			t, s = cutDate(value)
			earlier := r.UnavailableAfter.IsZero() || t.Before(r.UnavailableAfter)
			if applies && !t.IsZero() && earlier {
				r.UnavailableAfter = t
			}
		case hasPrefixFold(word, "max-"):
			value = strings.TrimLeft(value, whiteSpace)
			if n = strings.IndexAny(value, ","+whiteSpace); n < 0 {
				n = len(value)
			}
			s = value[n:]
		default:
			applies = forUs(word)
			s = value
		}
	}
}

// apply adds a directive without a value.
func (r *Robots) apply(directive string) {
	switch strings.ToLower(directive) {
	case "noindex":
		r.NoIndex = true
	case "nofollow":
		r.NoFollow = true
	case "none":
		r.NoIndex, r.NoFollow = true, true
	case "noarchive":
		r.NoArchive = true
	}
}

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

// cutDate parses a date up to the next comma, except for a comma after the weekday. The time is
// zero if the date is invalid.
func cutDate(s string) (t time.Time, rest string) {
	s = strings.TrimLeft(s, whiteSpace)
	date, rest, more := strings.Cut(s, ",")
	if more && isWeekday(strings.TrimSpace(date)) {
		date, rest, _ = strings.Cut(rest, ",")
	}
	return parseDate(date), rest
}

// isWeekday accepts the names of weekdays and their first three letters.
func isWeekday(s string) bool {
	for d := time.Sunday; d <= time.Saturday; d++ {
		if strings.EqualFold(s, d.String()) || strings.EqualFold(s, d.String()[:3]) {
			return true
		}
	}
	return false
}

// dateLayouts are the formats of RFC 822, RFC 850, ISO 8601 and asctime, without the weekday, and
// with numeric zones.
var dateLayouts = []string{
	"2 Jan 2006 15:04:05 -0700", "2 Jan 2006 15:04 -0700", "2 Jan 06 15:04:05 -0700",
	"2 Jan 06 15:04 -0700", "2 January 2006 15:04:05 -0700", "2-Jan-06 15:04:05 -0700",
	"2-Jan-2006 15:04:05 -0700", "2 Jan 2006 15:04:05", "2-Jan-06 15:04:05", "2-Jan-2006 15:04:05",
	"2 Jan 2006", "2 January 2006", "2-Jan-2006",
	time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05Z0700", "2006-01-02 15:04:05 -0700",
	"2006-01-02 15:04:05Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02 15:04:05",
	"2006-01-02 15:04", "2006-01-02", "20060102T150405Z07:00", "20060102", "Jan 2 15:04:05 2006",
}

// zones are the names of RFC 822, section 5.1.
var zones = map[string]string{
	"UT": "+0000", "UTC": "+0000", "GMT": "+0000", "Z": "+0000", "EST": "-0500", "EDT": "-0400",
	"CST": "-0600", "CDT": "-0500", "MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// maxDate is the maximum length of a date in bytes.
const maxDate = 64

// parseDate returns a date in UTC, or zero if it is invalid. A date without a zone is in UTC.
func parseDate(s string) time.Time {
	if len(s) > maxDate {
		return time.Time{}
	}
	words := strings.Fields(s)
	if len(words) > 0 && isWeekday(words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return time.Time{}
	}
	if offset, ok := zones[strings.ToUpper(words[len(words)-1])]; ok {
		words[len(words)-1] = offset
	}
	s = strings.Join(words, " ")
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC()
		}
	}
	return time.Time{}
}
