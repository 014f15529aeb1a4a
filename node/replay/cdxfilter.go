package replay

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"peerd/internal/order"
	"peerd/store/warc"
)

const (
	maxFilters = 8
	maxPattern = 200 // size in bytes of a filter
)

// filter is a condition on a field: "[!][=~]field:pattern". The pattern is a regular expression of
// RE2, which is searched in the value; behind "~" it must match at its beginning, and "=" demands
// this value.
type filter struct {
	not     bool
	field   string
	exact   string
	pattern *regexp.Regexp // nil: exact
}

func (f *filter) matches(e warc.Entry) bool {
	v := fieldValue(e, f.field)
	if f.pattern == nil {
		return (v == f.exact) != f.not
	}
	return f.pattern.MatchString(v) != f.not
}

func (q *cdxQuery) parseFilters(v url.Values) error {
	if len(v["filter"]) > maxFilters {
		return fmt.Errorf("there are more than %d filters", maxFilters)
	}
	for _, s := range v["filter"] {
		f, err := parseFilter(s)
		if err != nil {
			return err
		}
		q.filters = append(q.filters, f)
	}
	return nil
}

func parseFilter(s string) (f filter, err error) {
	if len(s) > maxPattern {
		return f, fmt.Errorf("a filter has more than %d bytes", maxPattern)
	}
	s, f.not = strings.CutPrefix(s, "!")
	s, exact := strings.CutPrefix(s, "=")
	s, begin := strings.CutPrefix(s, "~")
	name, pattern, ok := strings.Cut(s, ":")
	if !ok {
		return f, errors.New("a filter is not [!][=~]field:pattern")
	}
	if err := checkField(name); err != nil {
		return f, err
	}
	f.field = name
	if exact {
		f.exact = pattern
		return f, nil
	}
	if begin {
		pattern = "^(?:" + pattern + ")"
	}
	if f.pattern, err = regexp.Compile(pattern); err != nil {
		return f, fmt.Errorf("a filter is no regular expression of RE2: %w", err)
	}
	return f, nil
}

// position is a place in the index: in front of the capture with the number n of those that have
// line, which is the key and the time, at the beginning.
type position struct {
	line string
	n    int
}

// next returns the position of e, if p is that of the capture before.
func (p position) next(e warc.Entry) position {
	line := e.Key + " " + stamp(e.Time)
	if line == p.line {
		return position{line, p.n + 1}
	}
	return position{line, 0}
}

// String returns the position as a resume key.
func (p position) String() string { return p.line + " " + strconv.Itoa(p.n) }

func (q *cdxQuery) parseResume(v url.Values) error {
	s := v.Get("resumeKey")
	if s == "" {
		return nil
	}
	i := strings.LastIndexByte(s, ' ')
	n, err := strconv.Atoi(s[i+1:])
	if i < 0 || err != nil || n < 0 {
		return errors.New("resumeKey is not one of this server")
	}
	q.resume = position{s[:i], n}
	return nil
}

// nearestFirst keeps the captures that are nearest to a time.
type nearestFirst struct {
	at    time.Time
	limit int
	all   []warc.Entry
}

// add adds a capture. The others are dropped in between, so that at most twice the limit are kept.
func (s *nearestFirst) add(e warc.Entry) {
	if s.all = append(s.all, e); len(s.all) > 2*s.limit {
		s.order()
	}
}

// order sorts by the distance in time, and drops what exceeds the limit.
func (s *nearestFirst) order() {
	distance := func(e warc.Entry) time.Duration { return e.Time.Sub(s.at).Abs() }
	order.SortStableFunc(s.all, func(a, b warc.Entry) int {
		return cmp.Compare(distance(a), distance(b))
	})
	s.all = s.all[:min(len(s.all), s.limit)]
}
