package canon

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"peerd/store"
)

const (
	maxParameters    = 64 // length of Rules.DropParameters
	maxParameterName = 64 // bytes of each name
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
	// DropParameters are the names of further query parameters to remove, in any letter case.
	DropParameters []string
	// SortQuery sorts query parameters by name. Parameters of the same name keep their order.
	SortQuery bool
	// FoldIndex removes the name of an index file such as index.html, unless there is a query.
	FoldIndex bool
}

// DefaultRules returns the rules of a network that does not choose any. They remove session IDs,
// because every visit creates a new one and a crawl would not end.
func DefaultRules() Rules { return Rules{DropSessions: true} }

// Validate returns all errors in r, joined.
func (r Rules) Validate() error {
	var errs []error
	if n := len(r.DropParameters); n > maxParameters {
		errs = append(errs, fmt.Errorf("canon: %d parameters to drop, want at most %d",
			n, maxParameters))
	}
	for _, name := range r.DropParameters {
		if !isParameterName(name) {
			errs = append(errs, fmt.Errorf("canon: parameter to drop %.80q: "+
				"want 1 to %d bytes in the form in which a query contains them before the =",
				name, maxParameterName))
		}
	}
	return errors.Join(errs...)
}

func isParameterName(name string) bool {
	const front = "http://a/?"
	if name == "" || len(name) > maxParameterName || strings.ContainsAny(name, "&=") {
		return false
	}
	u, err := parse(front + name)
	return err == nil && string(u) == front+name
}

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
	if r.FoldIndex && newQuery == "" {
		front = foldIndex(front)
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
	if name == "" {
		return false
	}
	if r.DropSessions && isSession(name, value) || r.DropTracking && isTracking(name) {
		return true
	}
	for _, drop := range r.DropParameters {
		if strings.EqualFold(name, drop) {
			return true
		}
	}
	return false
}

// foldIndex removes the name of an index file.
func foldIndex(front string) string {
	slash := strings.LastIndexByte(front, '/')
	if indexNames.has(front[slash+1:]) {
		return front[:slash+1]
	}
	return front
}
