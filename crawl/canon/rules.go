package canon

import (
	"slices"
	"strings"

	"peerd/store"
)

// Rules determine which different canonical URLs name the same page. That depends on what is
// crawled, so each network chooses its rules; all peers of a network must use the same ones. The
// zero value changes nothing.
type Rules struct {
	// DropSessions removes session IDs from paths and queries: common parameters such as
	// jsessionid and PHPSESSID, and directories of ASP.NET such as (S(24 characters)).
	DropSessions bool
	// DropTracking removes query parameters that only state where a visitor came from: common
	// ones such as gclid, and all that begin with utm_ or mtm_.
	DropTracking bool
	// SortQuery sorts query parameters by name. Parameters of the same name keep their order.
	SortQuery bool
}

// DefaultRules returns the rules of a network that does not choose any. They remove session IDs,
// because every visit creates a new one and a crawl would not end.
func DefaultRules() Rules { return Rules{DropSessions: true} }

// Apply returns the URL that represents u; it is u itself if no rule applies. If u is canonical,
// so is the result. The result is not longer than u, and represents itself.
func (r Rules) Apply(u store.URL) store.URL {
	s := string(u)
	end, query := len(s), ""
	if i := strings.IndexByte(s, '?'); i >= 0 {
		end, query = i, s[i+1:]
	}
	front, newQuery := s[:end], query
	if query != "" && r.changesQuery(query) {
		newQuery = r.editQuery(query)
	}
	if r.DropSessions {
		front = dropPathSessions(front)
	}
	switch {
	case len(front) == end && newQuery == query:
		return u
	case newQuery == "":
		return store.URL(front)
	}
	return store.URL(front + "?" + newQuery)
}

// changesQuery reports whether editQuery would change anything.
func (r Rules) changesQuery(query string) bool {
	last := ""
	for {
		field, rest, more := strings.Cut(query, "&")
		name, value, _ := strings.Cut(field, "=")
		if r.dropsParameter(name, value) || r.SortQuery && name < last {
			return true
		}
		if !more {
			return false
		}
		query, last = rest, name
	}
}

func (r Rules) editQuery(query string) string {
	fields := slices.DeleteFunc(strings.Split(query, "&"), func(field string) bool {
		name, value, _ := strings.Cut(field, "=")
		return r.dropsParameter(name, value)
	})
	if r.SortQuery {
		slices.SortStableFunc(fields, func(a, b string) int {
			a, _, _ = strings.Cut(a, "=")
			b, _, _ = strings.Cut(b, "=")
			return strings.Compare(a, b)
		})
	}
	return strings.Join(fields, "&")
}

// dropsParameter reports whether a query parameter is removed.
func (r Rules) dropsParameter(name, value string) bool {
	return name != "" &&
		(r.DropSessions && isSession(name, value) || r.DropTracking && isTracking(name))
}
