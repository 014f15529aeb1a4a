package canon

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"peerd/store"
)

const (
	maxParameters    = 64 // names of Rules.DropParameters
	maxParameterName = 64 // bytes of each
)

// Rules say which canonical URLs name the same page although their texts
// differ, beyond what Parse makes equal for everybody: that depends on what is
// crawled, so it is a network's choice. All peers of a network must have the
// same. The zero value changes nothing.
type Rules struct {
	// DropSessions takes session ids out of paths and queries: the parameters
	// of sessionNames, and the folders of ASP.NET like (S(24 characters)).
	DropSessions bool
	// DropTracking takes out query parameters that only tell where a visitor
	// came from: trackingNames, and all that begin with utm_ or mtm_.
	DropTracking bool
	// DropParameters are more names of query parameters to take out, in any
	// letter case.
	DropParameters []string
	// SortQuery sorts query parameters by name. Those of one name keep their
	// order.
	SortQuery bool
	// FoldIndex names a folder in place of the file that servers send for it,
	// one of indexNames, unless there is a query.
	FoldIndex bool
}

// DefaultRules are those of a network that says nothing: session ids go,
// because each visit has another and a crawl would not end.
func DefaultRules() Rules { return Rules{DropSessions: true} }

// Validate reports every fault of r.
func (r Rules) Validate() error {
	var errs []error
	if n := len(r.DropParameters); n > maxParameters {
		errs = append(errs, fmt.Errorf("canon: %d parameters to drop, want at most %d", n, maxParameters))
	}
	for _, name := range r.DropParameters {
		if !isParameterName(name) {
			errs = append(errs, fmt.Errorf("canon: parameter to drop %.80q: want 1 to %d bytes as they stand in a query before the =", name, maxParameterName))
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

// Apply returns the URL that stands for u, which is u itself if no rule
// concerns it. The result is canonical if u is, no longer than u, and stands
// for itself.
func (r Rules) Apply(u store.URL) store.URL {
	s := string(u)
	end, query := len(s), ""
	if i := strings.IndexByte(s, '?'); i >= 0 {
		end, query = i, s[i+1:]
	}
	front, newQuery := s[:end], query
	if query != "" && r.editsQuery(query) {
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

// editsQuery says whether editQuery would change anything.
func (r Rules) editsQuery(query string) bool {
	last := ""
	for {
		field, rest, more := strings.Cut(query, "&")
		name, value, _ := strings.Cut(field, "=")
		if r.drops(name, value) || r.SortQuery && name < last {
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
		return r.drops(name, value)
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

// drops says whether a query parameter goes.
func (r Rules) drops(name, value string) bool {
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

// foldIndex cuts the name of an index file off.
func foldIndex(front string) string {
	slash := strings.LastIndexByte(front, '/')
	if indexNames.has(front[slash+1:]) {
		return front[:slash+1]
	}
	return front
}
