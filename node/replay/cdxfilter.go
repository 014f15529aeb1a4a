package replay

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
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
	if s := v.Get("collapse"); s != "" {
		return q.collapse.parse(s)
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
	if f.field, err = fieldOf(name); err != nil {
		return f, err
	}
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

// collapse drops captures that have the same beginning of a field as the one before.
type collapse struct {
	field string // "": nothing is dropped
	n     int    // compared bytes; 0: all
	last  string
	begun bool
}

func (c *collapse) parse(s string) (err error) {
	name, n, ok := strings.Cut(s, ":")
	if c.field, err = fieldOf(name); err != nil || !ok {
		return err
	}
	if c.n, err = strconv.Atoi(n); err != nil || c.n < 1 {
		return errors.New("collapse is not field or field:N")
	}
	return nil
}

func (c *collapse) drops(e warc.Entry) bool {
	if c.field == "" {
		return false
	}
	v := fieldValue(e, c.field)
	if c.n > 0 {
		v = v[:min(len(v), c.n)]
	}
	same := c.begun && v == c.last
	c.last, c.begun = v, true
	return same
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
	q.showResume = v.Get("showResumeKey") == "true"
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

// sorter keeps the first captures in the order of a query.
type sorter struct {
	q   *cdxQuery
	all []warc.Entry
}

// add adds a capture. The latest ones are dropped in between, so that at most twice the limit of
// the query are kept.
func (s *sorter) add(e warc.Entry) {
	s.all = append(s.all, e)
	if s.q.sort == "reverse" && len(s.all) > 2*s.q.limit {
		s.all = slices.Delete(s.all, 0, len(s.all)-s.q.limit)
	}
	if s.q.sort == "closest" && len(s.all) > 2*s.q.limit {
		s.order()
	}
}

// order sorts by the distance in time, and drops what exceeds the limit.
func (s *sorter) order() {
	distance := func(e warc.Entry) time.Duration { return e.Time.Sub(s.q.closest).Abs() }
	order.SortStableFunc(s.all, func(a, b warc.Entry) int {
		return cmp.Compare(distance(a), distance(b))
	})
	s.all = s.all[:min(len(s.all), s.q.limit)]
}

// result returns the captures in order.
func (s *sorter) result() []warc.Entry {
	switch s.q.sort {
	case "reverse":
		slices.Reverse(s.all)
		s.all = s.all[:min(len(s.all), s.q.limit)]
	case "closest":
		s.order()
	}
	return s.all
}
