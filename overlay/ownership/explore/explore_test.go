package explore

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"peerd/overlay/ownership/internal/rule"
)

var (
	limit  = flag.Duration("limit", 0, "the longest time for a scenario; 0: none")
	faults = flag.Int("faults", 0, "additional faults of each scenario, which may not be finished")
	trace  = flag.Bool("trace", false, "print how a rule that is switched off breaks an invariant")
)

// full makes TestScenarios explore the scenarios up to their own bounds, and TestMutants run. It is
// set with the build tag integration; otherwise fewer ticks and faults keep the test short.
var full bool

// TestScenarios explores all scenarios with all rules.
func TestScenarios(t *testing.T) {
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			t.Parallel()
			sc.Fair = 64
			sc.Budget.Faults += int8(*faults)
			if !full || testing.Short() {
				sc.Budget.Ticks = min(sc.Budget.Ticks, 1)
				sc.Budget.Faults = min(sc.Budget.Faults, 1)
			}
			r := Explore(sc, *limit)
			t.Log(r)
			if r.Broken != "" {
				t.Fatalf("%s\n%s", r.Broken, strings.Join(r.Trace, "\n"))
			}
		})
	}
}

// TestMutants switches each rule off and expects that this breaks an invariant.
func TestMutants(t *testing.T) {
	if !full || testing.Short() {
		t.Skip("explores every scenario once more; needs -tags integration")
	}
	if len(mutants) != int(rule.Count) {
		t.Errorf("%d mutants for %d rules", len(mutants), rule.Count)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(scenarios, func(s Scenario) bool { return s.Name == m.scenario })
			sc := scenarios[i]
			sc.Off = rule.Of(m.rule)
			if m.rule == rule.Retry { // it is for liveness
				sc.Fair = 64
			}
			r := Explore(sc, *limit)
			if r.Broken == "" {
				t.Fatalf("%q: nothing broke: %v", m.scenario, r)
			}
			t.Logf("%q: %s (%v)", m.scenario, r.Broken, r)
			if *trace {
				t.Log(strings.Join(r.Trace, "\n"))
			}
		})
	}
}
