package sim

import (
	"testing"
	"time"
)

func TestNearness(t *testing.T) {
	ms := func(all ...int) (times []time.Duration) {
		for _, t := range all {
			times = append(times, time.Duration(t)*time.Millisecond)
		}
		return times
	}
	for name, c := range map[string]struct {
		times []time.Duration
		owns  []bool
		want  Nearness
	}{
		"the nearest":         {ms(50, 40), []bool{false, true}, Nearness{1, 1}},
		"a fifth slower":      {ms(48, 40), []bool{true, false}, Nearness{1, 1}},
		"more":                {ms(49, 40), []bool{true, false}, Nearness{0, 1}},
		"no owner":            {ms(50, 40), []bool{false, false}, Nearness{}},
		"two owners, one far": {ms(50, 40), []bool{true, true}, Nearness{0, 1}},
		"no peer":             {},
	} {
		var n Nearness
		if n.count(c.times, c.owns); n != c.want {
			t.Errorf("%s: %+v, want %+v", name, n, c.want)
		}
	}
}

// Each disturbance but the first has one fault, and is counted before it and after it has ended.
func TestDisturbances(t *testing.T) {
	for i, d := range Disturbances {
		s := d.schedule(d.options(DefaultOptions(3)))
		counts := s.counts
		if len(counts) != 2 || len(s.Faults) != min(i, 1) {
			t.Errorf("%s: %d counts and %d faults", d, len(counts), len(s.Faults))
			continue
		}
		for _, f := range s.Faults {
			if f.At <= counts[0] || counts[1] != f.At+f.For+recoverFor {
				t.Errorf("%s: %v is counted at %v", d, f, counts)
			}
		}
	}
}
