package sitemap

import (
	"strings"
	"time"
)

// maxDate is the maximum length of a date in bytes.
const maxDate = 64

// w3cLayouts are the formats of the W3C note on date and time formats, and similar ones. All of
// them accept fractions of seconds.
var w3cLayouts = []string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02",
	"2006-01-02T15:04Z07:00",
	"2006-01",
	"2006",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05", // no zone: UTC
	"2006-01-02T15:04",
	"20060102T150405Z0700",
	"20060102",
}

// rfcLayouts are the formats of RFC 822 without the weekday and with a numeric zone, also with
// years of four digits (RFC 1123).
var rfcLayouts = []string{
	"2 Jan 2006 15:04:05 -0700",
	"2 Jan 06 15:04:05 -0700",
	"2 Jan 2006 15:04 -0700",
	"2 Jan 06 15:04 -0700",
	"2 Jan 2006 -0700",
	"2 January 2006 15:04:05 -0700",
}

// zones are the names of RFC 822, section 5.1. All others are treated as UTC, also the military
// letters, which were used with either sign (RFC 2822, section 4.3).
var zones = map[string]string{
	"EST": "-0500", "EDT": "-0400", "CST": "-0600", "CDT": "-0500",
	"MST": "-0700", "MDT": "-0600", "PST": "-0800", "PDT": "-0700",
}

// parseDate parses a date in any of the formats of sitemaps and feeds. The result is in UTC; years
// before 1970 and after 9999 are rejected.
func parseDate(s string) (time.Time, bool) {
	if s = strings.TrimSpace(s); s == "" || len(s) > maxDate {
		return time.Time{}, false
	}
	var t time.Time
	var ok bool
	if c := s[0]; '0' <= c && c <= '9' && len(s) >= 4 && !strings.Contains(s[:4], " ") {
		t, ok = parseW3C(s)
	} else {
		t, ok = parseRFC822(s)
	}
	if t = t.UTC(); !ok || t.Year() < 1970 || t.Year() > 9999 {
		return time.Time{}, false
	}
	return t, true
}

func parseW3C(s string) (time.Time, bool) {
	s = strings.ToUpper(s)
	if len(s) > 11 && s[10] == ' ' {
		s = s[:10] + "T" + strings.ReplaceAll(strings.TrimSuffix(s[11:], " UTC"), " ", "")
	}
	return parseAny(w3cLayouts, s)
}

func parseRFC822(s string) (time.Time, bool) {
	if _, after, ok := strings.Cut(s, ","); ok { // the weekday is often wrong
		s = after
	}
	s, _, _ = strings.Cut(s, "(") // a comment
	words := strings.Fields(s)
	if len(words) < 3 {
		return time.Time{}, false
	}
	switch last := words[len(words)-1]; {
	case last[0] == '+' || last[0] == '-':
		words[len(words)-1] = strings.Replace(last, ":", "", 1)
	case '0' <= last[0] && last[0] <= '9': // no zone
		words = append(words, "+0000")
	default:
		zone, ok := zones[strings.ToUpper(last)]
		if !ok {
			zone = "+0000"
		}
		words[len(words)-1] = zone
	}
	return parseAny(rfcLayouts, strings.Join(words, " "))
}

func parseAny(layouts []string, s string) (time.Time, bool) {
	for _, layout := range layouts {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
