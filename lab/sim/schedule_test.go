package sim

import (
	"reflect"
	"slices"
	"testing"
)

func TestSchedules(t *testing.T) {
	seen := map[Kind]int{}
	for seed := range uint64(500) {
		o := DefaultOptions(seed)
		o.Level = Moving
		s := NewSchedule(o)
		if !reflect.DeepEqual(s, NewSchedule(o)) {
			t.Fatalf("seed %d: two calls of NewSchedule differ", seed)
		}
		lost, moved := 0, 0
		for i, f := range s.Faults {
			seen[f.Kind]++
			late := f.At > o.Faults && !slices.ContainsFunc(repeated(o), func(r Fault) bool {
				return reflect.DeepEqual(r, f)
			})
			if f.At < 0 || late || f.For < 0 || len(f.Peers) == 0 && f.Kind != Move ||
				i > 0 && f.At < s.Faults[i-1].At {
				t.Errorf("seed %d: invalid fault %v", seed, f)
			}
			if f.partitions() && 2*len(f.Peers) > o.Peers {
				t.Errorf("seed %d: %v separates %d of %d peers, want at most half", seed, f,
					len(f.Peers), o.Peers)
			}
			if f.destroysDisk() {
				lost++
			}
			if f.Kind == Move {
				moved++
			}
		}
		if lost > 1 || moved > 1 {
			t.Errorf("seed %d loses %d disks and moves %d sites, want at most one each", seed,
				lost, moved)
		}
		for _, o.Level = range []Level{Returning, Losing} {
			for _, f := range NewSchedule(o).Faults {
				if f.destroysDisk() && o.Level < Losing || f.Kind == Move {
					t.Errorf("seed %d, level %d: %v is of a higher level", seed, o.Level, f)
				}
			}
		}
	}
	for k := range kinds {
		if seen[k] == 0 {
			t.Errorf("500 schedules have no %v", k)
		}
	}
}

// A seed of which the process fails has failed, whatever it has written before.
func TestFailedProcess(t *testing.T) {
	const script = `sum=$(printf %s "$0" | sed 's/.*"Sum":"\([^"]*\)".*/\1/')
echo '{"Seeds":1,"Pages":5,"Fetched":5}' >"$sum"
exit 1`
	sum, err := PlaySeeds(t.Context(), SeedsOptions{Seeds: 2, AtOnce: 1,
		Self: []string{"sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Seeds != 2 || sum.Failed != 2 || sum.Fetched != 10 {
		t.Errorf("%d seeds, %d failed, %d pages, want 2, 2 and 10", sum.Seeds, sum.Failed,
			sum.Fetched)
	}
}
