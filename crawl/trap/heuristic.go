package trap

import (
	"fmt"
	"strings"
)

// Heuristic names a rule that drops URLs.
type Heuristic uint8

// The heuristics. Stored in State: never renumber.
const (
	None Heuristic = iota // nothing is wrong
	Length
	Depth
	Params
	Repeat
	Calendar
	Session
	Facets
	Numbers
	Quota
	Subdomains
	numHeuristics
)

var names = [numHeuristics]string{
	"none", "length", "depth", "params", "repeat", "calendar", "session", "facets", "numbers", "quota", "subdomains",
}

// String returns the name of h as it is written in configuration files.
func (h Heuristic) String() string {
	if h < numHeuristics {
		return names[h]
	}
	return fmt.Sprintf("heuristic(%d)", uint8(h))
}

// Set is a set of heuristics.
type Set uint16

// All has every heuristic.
const All = Set(1<<numHeuristics - 1<<1)

// Has says whether h is in s.
func (s Set) Has(h Heuristic) bool { return s>>h&1 == 1 }

// With returns s and h.
func (s Set) With(h Heuristic) Set { return s | 1<<h&All }

// Without returns s less h.
func (s Set) Without(h Heuristic) Set { return s &^ (1 << h) }

// Names returns the members of s by name, as Parse reads them.
func (s Set) Names() []string {
	var res []string
	for h := None + 1; h < numHeuristics; h++ {
		if s.Has(h) {
			res = append(res, h.String())
		}
	}
	return res
}

// Parse reads the switches of a configuration file in order. A name turns a
// heuristic on and "-name" off; "all" and "none" set the whole. The list starts
// from none if its first item turns one on, from all otherwise: ["-calendar"]
// is everything but calendars, ["length", "depth"] only these two, and an
// empty list everything.
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
			return 0, fmt.Errorf("trap: %q is no heuristic, want one of all, none, %s, or one with a minus", item, strings.Join(All.Names(), ", "))
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
