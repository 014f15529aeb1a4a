// Package order sorts slices of large elements. It imports nothing of this module.
//
// The functions do what those of the same names in package slices do. That package is compiled once
// more for each type of element, which takes about 20 kB of the program each time; this one
// uses package sort, which exists once and takes about twice the time.
package order

import (
	"iter"
	"slices"
	"sort"
)

// SortFunc sorts s in the order of compare. Equal elements may change places.
func SortFunc[S ~[]E, E any](s S, compare func(a, b E) int) {
	sort.Slice(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}

// SortStableFunc sorts s in the order of compare. Equal elements keep their order.
func SortStableFunc[S ~[]E, E any](s S, compare func(a, b E) int) {
	sort.SliceStable(s, func(i, j int) bool { return compare(s[i], s[j]) < 0 })
}

// SortedFunc returns the elements of seq in the order of compare.
func SortedFunc[E any](seq iter.Seq[E], compare func(a, b E) int) []E {
	s := slices.Collect(seq)
	SortFunc(s, compare)
	return s
}
