package sim

import (
	"reflect"
	"testing"
)

func TestSchedules(t *testing.T) {
	seen := map[Kind]int{}
	for seed := range uint64(500) {
		o := DefaultOptions(seed)
		o.Level = Moving
		s := NewSchedule(o)
		if !reflect.DeepEqual(s, NewSchedule(o)) {
			t.Fatalf("seed %d makes two schedules", seed)
		}
		lost, moved := 0, 0
		for i, f := range s.Faults {
			seen[f.Kind]++
			if f.At < 0 || f.At > o.Faults || f.For < 0 || len(f.Peers) == 0 && f.Kind != Move || i > 0 && f.At < s.Faults[i-1].At {
				t.Errorf("seed %d: %v", seed, f)
			}
			if f.cuts() && 2*len(f.Peers) > o.Peers {
				t.Errorf("seed %d: %v is more than half of %d", seed, f.Peers, o.Peers)
			}
			if f.empties() {
				lost++
			}
			if f.Kind == Move {
				moved++
			}
		}
		if lost > 1 || moved > 1 {
			t.Errorf("seed %d loses %d disks and moves %d sites", seed, lost, moved)
		}
		for _, o.Level = range []Level{Returning, Losing} {
			for _, f := range NewSchedule(o).Faults {
				if f.empties() && o.Level < Losing || f.Kind == Move {
					t.Errorf("seed %d, level %d: %v", seed, o.Level, f)
				}
			}
		}
	}
	for k := range kinds {
		if seen[k] == 0 {
			t.Errorf("no %v in 500 schedules", k)
		}
	}
}
