package order_test

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"peerd/internal/order"
	_ "peerd/internal/rapidtest"
)

type pair struct{ key, place int }

func byKey(a, b pair) int { return cmp.Compare(a.key, b.key) }

// TestLikeSlices compares the functions with those of package slices.
func TestLikeSlices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.SliceOf(rapid.IntRange(0, 9)).Draw(t, "keys")
		got := make([]pair, len(keys))
		for i, k := range keys {
			got[i] = pair{k, i}
		}
		want := slices.Clone(got)
		order.SortStableFunc(got, byKey)
		slices.SortStableFunc(want, byKey)
		if !slices.Equal(got, want) {
			t.Fatalf("SortStableFunc: got %v, want %v", got, want)
		}
		order.SortFunc(got, func(a, b pair) int { return -byKey(a, b) })
		if !slices.IsSortedFunc(got, func(a, b pair) int { return -byKey(a, b) }) {
			t.Fatalf("SortFunc: got %v", got)
		}
	})
}

func TestSortedFunc(t *testing.T) {
	m := map[int]pair{1: {3, 0}, 2: {1, 0}, 3: {2, 0}}
	got := order.SortedFunc(maps.Values(m), byKey)
	if want := []pair{{1, 0}, {2, 0}, {3, 0}}; !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}
