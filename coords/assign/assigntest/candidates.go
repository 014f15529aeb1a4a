package assigntest

import (
	"reflect"
	"slices"
	"testing"

	"peerd/coords/assign"
)

// Complete checks that the candidates of a simulation have what those of a running peer have:
// each field of assign.Candidate is set in at least one of them. Fields of which zero is the
// truth in that simulation are excepted by name.
func Complete(t *testing.T, all []assign.Candidate, except ...string) {
	t.Helper()
	for _, field := range reflect.VisibleFields(reflect.TypeFor[assign.Candidate]()) {
		set := slices.ContainsFunc(all, func(c assign.Candidate) bool {
			return !reflect.ValueOf(c).FieldByIndex(field.Index).IsZero()
		})
		if !set && !slices.Contains(except, field.Name) {
			t.Errorf("no candidate of %d has %s, as those of a running peer do", len(all),
				field.Name)
		}
	}
}
