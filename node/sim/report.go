package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// String is a line about a simulation.
func (r Result) String() string {
	s := fmt.Sprintf("seed %d: %v after the seed, %v after the last fault; %d of %d pages, %d fetched again, %d too early; faults:",
		r.Options.Seed, r.Took.Round(time.Second), r.Healed.Round(time.Second), r.Audit.PagesFetched, r.Audit.PagesExpected, len(r.Twice), len(r.Early))
	for _, f := range r.Schedule.Faults {
		s += " " + f.Kind.String()
	}
	return s
}

// slice bounds what Report tells of a history.
const slice = 150

// Report is what somebody needs who looks for the fault behind a violation: the
// schedule, the violations, and what of the history belongs to them.
func (r Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d failed.\n\nschedule, by the time since the crawl was seeded:\n%v\nviolations:\n", r.Options.Seed, r.Schedule)
	for _, v := range r.Violations {
		fmt.Fprintln(&b, " ", v)
	}
	fmt.Fprintf(&b, "\nhistory, as far as it belongs to them, by the time since the start:\n")
	lines := r.relevant()
	for _, e := range lines[:min(len(lines), slice)] {
		fmt.Fprintln(&b, e)
	}
	if n := len(lines) - slice; n > 0 {
		fmt.Fprintf(&b, "… and %d more\n", n)
	}
	return b.String()
}

// relevant returns the events that are faults, or speak of something that a
// violation speaks of.
func (r Result) relevant() (all []Event) {
	words := map[string]bool{}
	for _, v := range r.Violations {
		for _, w := range strings.FieldsFunc(v, func(c rune) bool { return strings.ContainsRune(" ,:", c) }) {
			if strings.Contains(w, "/") {
				words[w] = true
			}
		}
	}
	for _, u := range r.Missing {
		words[u] = true
	}
	for _, e := range r.History {
		keep := !strings.HasPrefix(e.Text, "holds ") && !strings.HasSuffix(e.Text, ")")
		for w := range words {
			keep = keep || strings.Contains(e.Text, w)
		}
		if keep {
			all = append(all, e)
		}
	}
	return all
}

// Summary adds up simulations. The zero value is none.
type Summary struct {
	Seeds, Failed          int
	Pages, Fetched         int
	Faults                 map[string]int
	Twice, Early           map[string]int // by excuse
	Virtual, Healed, Worst time.Duration  // from seed to end, from the last fault to the end, and the longest of these
}

// Add counts r in.
func (s *Summary) Add(r Result) {
	one := Summary{
		Seeds: 1, Pages: r.Audit.PagesExpected, Fetched: r.Audit.PagesFetched,
		Faults: map[string]int{}, Twice: map[string]int{}, Early: map[string]int{},
		Virtual: r.Took, Healed: r.Healed, Worst: r.Healed,
	}
	if len(r.Violations) > 0 {
		one.Failed = 1
	}
	for _, f := range r.Schedule.Faults {
		one.Faults[f.Kind.String()]++
	}
	for _, x := range r.Twice {
		one.Twice[cmp.Or(x.Excuse, "no excuse")]++
	}
	for _, x := range r.Early {
		one.Early[cmp.Or(x.Excuse, "no excuse")]++
	}
	s.Merge(one)
}

// Merge counts in what was summed up elsewhere.
func (s *Summary) Merge(o Summary) {
	s.Seeds += o.Seeds
	s.Failed += o.Failed
	s.Pages += o.Pages
	s.Fetched += o.Fetched
	s.Virtual += o.Virtual
	s.Healed += o.Healed
	s.Worst = max(s.Worst, o.Worst)
	s.Faults = plus(s.Faults, o.Faults)
	s.Twice = plus(s.Twice, o.Twice)
	s.Early = plus(s.Early, o.Early)
}

func plus(a, b map[string]int) map[string]int {
	if a == nil {
		a = map[string]int{}
	}
	for k, n := range b {
		a[k] += n
	}
	return a
}

// String is the sum for people.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d failed; %d of %d pages fetched\n", s.Seeds, s.Failed, s.Fetched, s.Pages)
	fmt.Fprintf(&b, "virtual time %v; %v on average from the last fault to the end, %v at most\n", s.Virtual.Round(time.Minute),
		(s.Healed / time.Duration(max(1, s.Seeds))).Round(time.Second), s.Worst.Round(time.Second))
	for _, part := range []struct {
		name string
		of   map[string]int
	}{{"faults", s.Faults}, {"fetched again", s.Twice}, {"too early", s.Early}} {
		fmt.Fprintf(&b, "%s:", part.name)
		for _, k := range slices.Sorted(maps.Keys(part.of)) {
			fmt.Fprintf(&b, " %s %d;", k, part.of[k])
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
