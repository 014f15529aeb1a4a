package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// String returns a summary in one line.
func (r Result) String() string {
	s := fmt.Sprintf("seed %d: finished %v after seeding, %v after the last fault; "+
		"%d of %d pages, %d fetched again, %d too early; faults:",
		r.Options.Seed, r.Took.Round(time.Second), r.Healed.Round(time.Second),
		r.Audit.PagesFetched, r.Audit.PagesExpected, len(r.Repeated), len(r.Early))
	for _, f := range r.Schedule.Faults {
		s += " " + f.Kind.String()
	}
	return s + "; " + r.Placements.String()
}

// maxReportLines limits the lines of the history in a report.
const maxReportLines = 150

// Report describes a failure: the schedule, the violations, and the events of the
// history that are related to them.
func (r Result) Report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d failed.\n\nschedule, by time since seeding:\n%v\nviolations:\n",
		r.Options.Seed, r.Schedule)
	for _, v := range r.Violations {
		fmt.Fprintln(&b, " ", v)
	}
	fmt.Fprintf(&b, "\nrelated events, by time since the start:\n")
	lines := r.relevant()
	for _, e := range lines[:min(len(lines), maxReportLines)] {
		fmt.Fprintln(&b, e)
	}
	if n := len(lines) - maxReportLines; n > 0 {
		fmt.Fprintf(&b, "… and %d more\n", n)
	}
	return b.String()
}

// relevant returns the faults and the events that mention a URL or subnet of a
// violation.
func (r Result) relevant() (all []Event) {
	words := map[string]bool{}
	for _, v := range r.Violations {
		for _, w := range strings.FieldsFunc(v, func(c rune) bool {
			return strings.ContainsRune(" ,:", c)
		}) {
			if strings.Contains(w, "/") {
				words[w] = true
			}
		}
	}
	for _, u := range r.Missing {
		words[u] = true
	}
	for _, e := range r.History {
		keep := !strings.HasPrefix(e.Text, "owns ") && !strings.HasPrefix(e.Text, "released ") &&
			!strings.HasSuffix(e.Text, ")")
		for w := range words {
			keep = keep || strings.Contains(e.Text, w)
		}
		if keep {
			all = append(all, e)
		}
	}
	return all
}

// Summary adds up the results of simulations. The zero value has none.
type Summary struct {
	Seeds, Failed   int
	Pages, Fetched  int
	Faults          map[string]int
	Repeated, Early map[string]int // by excuse
	// Virtual and Healed are sums of Result.Took and Result.Healed; Worst is the
	// longest Result.Healed.
	Virtual, Healed, Worst time.Duration
	Placements             Placements
	Nearness               [][]Nearness // of each seed with a Disturbance
}

// Add adds r.
func (s *Summary) Add(r Result) {
	one := Summary{
		Seeds: 1, Pages: r.Audit.PagesExpected, Fetched: r.Audit.PagesFetched,
		Faults: map[string]int{}, Repeated: map[string]int{}, Early: map[string]int{},
		Virtual: r.Took, Healed: r.Healed, Worst: r.Healed, Placements: r.Placements,
	}
	if len(r.Violations) > 0 {
		one.Failed = 1
	}
	if len(r.Nearness) > 0 {
		one.Nearness = [][]Nearness{r.Nearness}
	}
	for _, f := range r.Schedule.Faults {
		one.Faults[f.Kind.String()]++
	}
	for _, x := range r.Repeated {
		one.Repeated[cmp.Or(x.Excuse, "no excuse")]++
	}
	for _, x := range r.Early {
		one.Early[cmp.Or(x.Excuse, "no excuse")]++
	}
	s.Merge(one)
}

// Merge adds the results in o.
func (s *Summary) Merge(o Summary) {
	s.Seeds += o.Seeds
	s.Failed += o.Failed
	s.Pages += o.Pages
	s.Fetched += o.Fetched
	s.Virtual += o.Virtual
	s.Healed += o.Healed
	s.Worst = max(s.Worst, o.Worst)
	s.Placements.add(o.Placements)
	s.Nearness = append(s.Nearness, o.Nearness...)
	s.Faults = plus(s.Faults, o.Faults)
	s.Repeated = plus(s.Repeated, o.Repeated)
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

// String returns the summary as text of several lines.
func (s *Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d seeds, %d failed; %d of %d pages fetched\n", s.Seeds, s.Failed, s.Fetched,
		s.Pages)
	fmt.Fprintf(&b, "virtual time %v; %v on average from the last fault to the end, %v at most\n",
		s.Virtual.Round(time.Minute),
		(s.Healed / time.Duration(max(1, s.Seeds))).Round(time.Second), s.Worst.Round(time.Second))
	fmt.Fprintln(&b, "placements:", s.Placements)
	if len(s.Nearness) > 0 {
		fmt.Fprintf(&b, "within a fifth of the nearest peer:%s\n", nearnessLine(s.Nearness))
	}
	for _, part := range []struct {
		name string
		of   map[string]int
	}{{"faults", s.Faults}, {"fetched again", s.Repeated}, {"too early", s.Early}} {
		fmt.Fprintf(&b, "%s:", part.name)
		for _, k := range slices.Sorted(maps.Keys(part.of)) {
			fmt.Fprintf(&b, " %s %d;", k, part.of[k])
		}
		fmt.Fprintln(&b)
	}
	return b.String()
}
