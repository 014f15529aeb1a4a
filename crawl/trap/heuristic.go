package trap

import (
	"fmt"
	"strings"
)

// Heuristic is a rule that drops URLs.
type Heuristic uint8

// The heuristics. They are stored in State: never renumber them.
const (
	None Heuristic = iota // no heuristic applies
	Length
	Depth
	Params
	Repeat
	Session
	Facets
	Quota
	Subdomains
	Yield
	Closed
	numHeuristics
)

var names = [numHeuristics]string{
	"none", "length", "depth", "params", "repeat", "session", "facets", "quota", "subdomains",
	"yield", "closed",
}

// String returns the name of h in configuration files.
func (h Heuristic) String() string {
	if h < numHeuristics {
		return names[h]
	}
	return fmt.Sprintf("heuristic(%d)", uint8(h))
}

// Set is a set of heuristics.
type Set uint16

// All contains every heuristic.
const All = Set(1<<numHeuristics - 1<<1)

// Has reports whether h is in s.
func (s Set) Has(h Heuristic) bool { return s>>h&1 == 1 }

// With returns s with h added.
func (s Set) With(h Heuristic) Set { return s | 1<<h&All }

// Without returns s with h removed.
func (s Set) Without(h Heuristic) Set { return s &^ (1 << h) }

// Names returns the names of the members of s, in the form that Parse accepts.
func (s Set) Names() []string {
	var res []string
	for h := None + 1; h < numHeuristics; h++ {
		if s.Has(h) {
			res = append(res, h.String())
		}
	}
	return res
}

// Parse reads the switches of a configuration file in order. A name adds a heuristic,
// "-name" removes it, and "all" and "none" replace the set. The initial set is empty if the
// first item adds a heuristic, otherwise it is All: ["-facets"] is everything but
// facets, ["length", "depth"] is only these two, and an empty list is everything.
func Parse(items []string) (Set, error) {
	s := All
	if len(items) > 0 && !strings.HasPrefix(items[0], "-") {
		s = 0
	}
	for _, item := range items {
		switch item {
		case "all":
			s = All
			continue
		case "none":
			s = 0
			continue
		}
		name, off := strings.CutPrefix(item, "-")
		h, ok := byName(name)
		switch {
		case !ok:
			return 0, fmt.Errorf(
				"trap: unknown heuristic %q, want all, none, or one of %s with or without a minus",
				item, strings.Join(All.Names(), ", "))
		case off:
			s = s.Without(h)
		default:
			s = s.With(h)
		}
	}
	return s, nil
}

func byName(name string) (Heuristic, bool) {
	for h := None + 1; h < numHeuristics; h++ {
		if names[h] == name {
			return h, true
		}
	}
	return None, false
}
